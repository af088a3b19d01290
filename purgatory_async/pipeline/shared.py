"""Checks, before the work, that Spark's workers see a job's places as this process does.

A path that only one machine has would fail in the middle of the work, or leave results where they are not looked for.
So a task on each core that Spark has by then opens a file to be read, and writes one where results go.
"""

import re
import secrets
import socket
import sys
from codecs import lookup
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.locations import Location, whole
from purgatory_async.pipeline.source.extent import Extent

_ROWS = 1 << 10
_ENCODING = "select reflect('java.lang.System', 'getProperty', 'sun.jnu.encoding')"
Batches = Iterator[pa.RecordBatch]


def any_of(extent: Extent) -> list[Location]:
    """The names of a segment of a journal, which has one of them; none for an empty journal."""
    return [form for piece in extent.everything[-1:] for form in (piece.lines, piece.parquet)]


def check_shared(
    spark: SparkSession, reads: Mapping[str, Sequence[Location]], writes: Mapping[str, Location]
) -> None:
    """Check that each worker sees some places as this process does. Costs next to nothing on this machine.

    Args:
        spark: The session.
        reads: Files of each option, one of which a worker must be able to open; none for nothing to open.
        writes: An existing directory for each option, in which a worker must see a new file and write another.

    Raises:
        Refused: A worker does not; the message names option, path and machine.
    """
    _check_named(spark, {option: paths[0] for option, paths in reads.items() if paths} | dict(writes))
    if not is_remote() and re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master") or ""):
        return
    mark = f".purgatory-{secrets.token_hex(4)}"
    try:
        for place in writes.values():
            with whole(place / mark) as path:
                path.touch()
        # Without a number of partitions there is one for each core.
        look = spark.range(_ROWS).mapInArrow(_look(dict(reads), dict(writes), mark), "fault string")
        faults = look.collect()
    finally:
        for place in writes.values():
            if (place / mark).exists():
                (place / mark).unlink()
    if faults:
        raise Refused(min(row.fault for row in faults))


def _check_named(spark: SparkSession, places: Mapping[str, Location]) -> None:
    """Check that Java names files as Python does: one that others started takes its encoding from their locale."""
    strange = [(option, path) for option, path in places.items() if not str(path).isascii()]
    if strange:
        (row,) = spark.sql(_ENCODING).collect()
        if lookup(row[0]).name != lookup(sys.getfilesystemencoding()).name:
            option, path = strange[0]
            raise Refused(
                f"{option}: {path} has no name in {row[0]}, Spark's encoding of names; start Spark with LC_ALL=C.UTF-8"
            )


def _look(
    reads: Mapping[str, Sequence[Location]], writes: Mapping[str, Location], mark: str
) -> Callable[[Batches], Batches]:
    def _report(numbers: Batches) -> Batches:
        for _ in numbers:
            pass
        faults = [_unread(option, paths) for option, paths in reads.items()]
        faults += [_unwritten(option, place, mark) for option, place in writes.items()]
        found = pa.array([fault for fault in faults if fault is not None], pa.string())
        yield pa.RecordBatch.from_arrays([found], ["fault"])

    return _report


def _unread(option: str, paths: Sequence[Location]) -> str | None:
    fault = None
    for path in paths:
        try:
            path.open("rb").close()
        except IsADirectoryError:
            return None
        except OSError as error:
            fault = _sentence(option, paths[0], error)
        else:
            return None
    return fault


def _unwritten(option: str, place: Location, mark: str) -> str | None:
    own = place / f"{mark}-{secrets.token_hex(4)}"
    try:
        (place / mark).open("rb").close()
        with whole(own) as path:
            path.touch()
        own.unlink()
    except OSError as error:
        return _sentence(option, place, error)
    return None


def _sentence(option: str, path: Location, error: OSError) -> str:
    remedy = (
        "name one that driver and workers share"
        if isinstance(path, Path)
        else "give the workers this process's credentials and endpoint"
    )
    host = socket.gethostname()
    return f"{option}: {path} is not what it is here for Spark's worker on {host}: {error.strerror}; {remedy}"
