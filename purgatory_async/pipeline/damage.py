"""Finds damage in a checkpoint before Spark does, which reports it in a hundred lines and names no remedy.

Spark renames each file into place without putting it on the disk first, so a power cut may leave an empty or torn one.
Hadoop keeps checksums beside each. A query has a log of what each batch will read, written before the batch, and one
of batches that are done, written after their results and state. So the newest file of a log can go without a loss if
nothing exists that depends on it.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.source.stream import decode_offset

BEGIN_ANEW: Final = "begin anew with another --checkpoint and another --out"
"""The remedy where nothing less helps."""

_NOT_BEGUN: Final = "remove it and start again: its batch has no results yet, so nothing is lost"
_REPEATED: Final = "remove it and start again: its batch is repeated, and nothing is lost or doubled"

_SUMS: Final = b"crc\0"  # how a file of checksums begins; the length of a piece follows
_SMALL: Final = 1 << 20  # bytes of a file that is read; a larger one must have as many pieces as checksums
_STAGES: Final = 2  # of a distributed purgatory, each with its state
_SOURCES: Final = 3  # its operations, the starts and its signals


def check_stream_files(checkpoint: Path) -> None:
    """Check what a stream continues with: the logs of its query, and its state after the last batch.

    Raises:
        Refused: A file is damaged or missing; the message names it and what to do.
    """
    states = {int(path.name): path for path in (checkpoint / "state").glob("*") if path.name.isdecimal()}
    made = max(states, default=-1)
    done, _ = _check_query(
        checkpoint / "query", made, lambda batch: checkpoint / "state" / f"{batch:09d}", _of_journal
    )
    if made >= 0:
        with _advised(BEGIN_ANEW if done >= made else _REPEATED):
            _check_state_of_stream(states[made])


def check_distributed_files(checkpoint: Path, out: Path) -> None:
    """Check what a distributed purgatory continues with: the logs of its query, sources and outcomes, and its state.

    Raises:
        Refused: A file is damaged or missing; the message names it and what to do.
    """
    sink = _Log(out / "outcomes" / "_spark_metadata")
    done, offsets = _check_query(checkpoint, sink.newest, sink.path, _of_files)
    for batch in sink.needed(done):
        with _advised(_REPEATED if batch > done else BEGIN_ANEW):
            sink.read(batch)
    if offsets is None:
        return
    for number, offset in enumerate(offsets[1:]):
        log, reached = _Log(checkpoint / "sources" / str(number)), offset["logOffset"] if offset else -1
        for batch in log.needed(reached):
            with _advised(_NOT_BEGUN if batch > reached else BEGIN_ANEW):
                log.read(batch)
    newest = _Log(checkpoint / "offsets").newest
    version = newest + (newest == done)  # of the state with which the next batch begins
    if version > 0:
        partitions = int(offsets[0]["conf"]["spark.sql.shuffle.partitions"])
        with _advised(BEGIN_ANEW):
            for stage in range(_STAGES):
                _check_state(checkpoint / "state" / str(stage), partitions, version)


def drop_orphans(query: Path) -> None:
    """Remove checksums of files that are gone, as by a remedy: Spark would not write these files again."""
    for folder in (query, query / "offsets", query / "commits"):
        for sums in folder.glob(".*.crc"):
            if not sums.with_name(sums.name[1:-4]).exists():
                sums.unlink()


@contextmanager
def _advised(remedy: str) -> Iterator[None]:
    """Refuse what is damaged in the block, with a remedy."""
    try:
        yield
    except Refused as damage:
        raise Refused(f"{damage}; {remedy}") from None


class _Log:
    """A log of Spark's: a directory with a file for each batch, some of which sum up those before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        self._plain = {int(name) for name in names if name.isdecimal()}
        self._summed = {int(name[:-8]) for name in names if re.fullmatch(r"\d+\.compact", name)}
        self.newest = max(self._plain | self._summed, default=-1)

    def path(self, batch: int) -> Path:
        """The file of a batch."""
        return self._directory / (f"{batch}.compact" if batch in self._summed else str(batch))

    def needed(self, least: int) -> range:
        """The batches that Spark reads to know all, up to the newest, or to one that must be there."""
        return range(max(self._summed, default=0), max(self.newest, least) + 1)

    def read(self, batch: int, least: int = 0) -> list[Any] | None:
        """The entries of a batch, each None if absent; None for all in another format.

        Raises:
            Refused: It cannot be read, or has fewer entries than ``least``.
        """
        path = self.path(batch)
        _check_file(path)
        version, *lines = path.read_bytes().splitlines()
        if re.fullmatch(rb"v\d+", version) is None:
            raise Refused(f"{path} is not of Spark")
        if version != b"v1":
            return None
        if len(lines) < least:
            raise Refused(f"{path} is torn")
        try:
            return [None if line == b"-" else json.loads(line) for line in lines]
        except ValueError:
            raise Refused(f"{path} is torn") from None


def _check_query(
    query: Path, made: int, result: Callable[[int], Path], is_ours: Callable[[list[Any]], bool]
) -> tuple[int, list[Any] | None]:
    """Check the logs of a query.

    Args:
        query: Their directory.
        made: The newest batch with results; -1 for none.
        result: Where the result of a batch is.
        is_ours: Whether a batch reads the sources of the command.

    Returns:
        The newest batch that is done, -1 for none; and what the newest that was begun reads, None if that is not known.
    """
    offsets, commits = _Log(query / "offsets"), _Log(query / "commits")
    newest, done = offsets.newest, commits.newest
    begun = max(newest, done, made) >= 0
    metadata = query / "metadata"
    if begun or metadata.exists():
        with _advised(BEGIN_ANEW if begun else _NOT_BEGUN):
            _check_json(metadata)
    if not begun:
        return -1, None
    with _advised(BEGIN_ANEW if max(done, made) >= newest else _NOT_BEGUN):
        found = offsets.read(max(newest, done, made), 2)
        if found is not None and not is_ours(found):
            raise Refused(f"{offsets.path(newest)} is not of this command")
    with _advised(_REPEATED if done == newest else BEGIN_ANEW):
        if done >= 0:
            commits.read(done, 1)
    with _advised(BEGIN_ANEW):
        if newest > 0:
            offsets.read(newest - 1, 2)
        if made < done:
            raise Refused(f"{result(done)} is missing")
    return done, found


def _of_journal(entries: list[Any]) -> bool:
    try:
        _, offset = entries
        decode_offset(offset or {})
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    return True


def _of_files(entries: list[Any]) -> bool:
    try:
        first, *offsets = entries
        int(first["conf"]["spark.sql.shuffle.partitions"])
        numbers = [int(offset["logOffset"]) for offset in offsets if offset is not None]
    except (ValueError, TypeError, KeyError):
        return False
    return len(offsets) == _SOURCES and all(number >= -1 for number in numbers)


def _check_state_of_stream(state: Path) -> None:
    """Check the records that a stream keeps; they are named by their directory, which goes as a whole."""
    records = state / "records"
    if not (records / "_SUCCESS").exists():
        raise Refused(f"{state} is incomplete")
    for path in records.glob("*.parquet"):
        if not is_parquet(path):
            raise Refused(f"{state} has a damaged file {path.name}")


def is_parquet(path: Path) -> bool:
    """Whether a file begins and ends as Parquet does, so is not torn."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False
    return True


def _check_state(stage: Path, partitions: int, version: int) -> None:
    """Check a stage's state for a batch: that Spark can load this version of each partition."""
    for folder in ("_metadata", "_stateSchema"):
        for path in (stage / folder).rglob("[!.]*"):
            if path.is_file():
                _check_file(path)
    for partition in range(partitions):
        store = stage / str(partition)
        names = {path.name for path in store.iterdir()} if store.is_dir() else set()
        if any("_" in name for name in names):
            return  # a cluster's own setting: names with an id each
        snapshots = [int(name[:-4]) for name in names if re.fullmatch(r"\d+\.zip", name)]
        start = max((number for number in snapshots if number <= version), default=0)
        if start:
            _check_snapshot(store / f"{start}.zip")
        for number in range(start + 1, version + 1):
            _check_file(store / f"{number}.changelog")


def _check_snapshot(path: Path) -> None:
    _check_file(path)
    try:
        with ZipFile(path) as archive:
            listed = json.loads(archive.read("metadata").partition(b"\n")[2])
    except (BadZipFile, KeyError, ValueError):
        raise Refused(f"{path} is torn") from None
    for table in listed["sstFiles"]:
        _check_file(path.parent / "SSTs" / table["dfsSstFileName"])


def _check_json(path: Path) -> None:
    _check_file(path)
    try:
        json.loads(path.read_bytes())
    except ValueError:
        raise Refused(f"{path} is torn") from None


def _check_file(path: Path) -> None:
    """Check that a file is there and, by the checksums beside it, whole."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= _SMALL else None
    except FileNotFoundError:
        raise Refused(f"{path} is missing") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    if not size:
        raise Refused(f"{path} is empty")
    beside = path.with_name(f".{path.name}.crc")
    sums = beside.read_bytes() if beside.is_file() else b""
    piece = int.from_bytes(sums[4:8])
    if not sums.startswith(_SUMS) or not piece:
        return  # written without, or as useless for Spark
    found = sums[8:]
    if content is None:
        whole = len(found) == -(-size // piece) * 4
    else:
        starts = range(0, size, piece)
        whole = found == b"".join(crc32(content[at : at + piece]).to_bytes(4) for at in starts)
    if not whole:
        raise Refused(f"{path} is damaged: its checksums differ")
