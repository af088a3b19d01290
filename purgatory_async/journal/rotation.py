"""Turns a full segment into Parquet: a fifth of the size, and several times faster to read.

It runs in a separate process: decoding a hundred thousand lines holds the interpreter's lock for a second, which would
stall the event loop. Killed at any moment, it leaves the JSON lines intact. The Parquet file gets its name, and the
lines are removed, only once the file is complete and on the disk. A checksum covers the whole file.

    python -m purgatory_async.journal.rotation SEGMENT.jsonl
"""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import pyarrow.parquet as pq

from purgatory_async.journal.columns import add_checksum, arrow_schema, record_batches
from purgatory_async.journal.lines import Damage, read_lines, whole_length
from purgatory_async.journal.schema import Record
from purgatory_async.journal.segments import JournalError, Segment, sync_directory

__all__ = ["seal"]

BLOCK: Final = 8 * 1024 * 1024


def seal(segment: Segment) -> bool:
    """Turn a segment of JSON lines that no longer grows into Parquet. O(its length).

    Torn bytes after its last newline are dropped.

    Returns:
        Whether it is sealed; a segment with damage stays unchanged, so that the damage keeps its offsets.

    Raises:
        OSError: It cannot be read or written; it is left unchanged.
    """
    # A killed writer leaves its sealing process running, and the next writer starts another one.
    try:
        source = segment.path.open("rb")
    except FileNotFoundError:
        if segment.parquet.exists():
            return True
        raise
    with source:
        fcntl.flock(source, fcntl.LOCK_EX)
        return not segment.path.exists() or _seal(segment, source)


def _seal(segment: Segment, source: IO[bytes]) -> bool:
    waiting = segment.path.with_name(f".{segment.parquet.name}")
    try:
        _write(source, waiting)
        _sync(waiting)
    except JournalError:
        waiting.unlink(missing_ok=True)
        return False
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise
    waiting.rename(segment.parquet)
    sync_directory(segment.path.parent)
    segment.path.unlink()
    return True


def _write(source: IO[bytes], target: Path) -> None:
    with pq.ParquetWriter(target, arrow_schema(), compression="zstd", write_page_checksum=True) as writer:
        os.chmod(target, 0o600)  # noqa: PTH101 - while it is still empty
        for records in _blocks(source):
            for batch in record_batches(records):
                writer.write_batch(batch)
    add_checksum(target)


def _blocks(file: IO[bytes]) -> Iterator[list[Record]]:
    """The records of a file, 8 MiB at a time."""
    rest = b""
    while block := file.read(BLOCK):
        data = rest + block
        length = whole_length(data)
        yield [_sound(found) for found in read_lines(data[:length])]
        rest = data[length:]


def _sound(found: Record | Damage) -> Record:
    if isinstance(found, Damage):
        raise JournalError(f"a line must be a record, got {found}")
    return found


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def main(arguments: list[str]) -> int:
    """Seal the named segment files; returns the exit code."""
    with contextlib.suppress(OSError):
        os.nice(10)
    for argument in arguments:
        segment = Segment.of(Path(argument))
        if segment is None or not segment.live:
            sys.stderr.write(
                f"{argument} is no segment of a journal: it would be named run.node.000001.jsonl\n"
            )
            return 2
        try:
            seal(segment)
        except OSError as error:
            sys.stderr.write(f"{argument} stays as it is: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
