"""Deals a journal's records into buckets, so that all records of an operation meet in one.

Spark moves rows one by one, and each costs as much as hundreds of a column in a worker. So a task's records go to the
next as one row for each bucket, with an Arrow table in it. The operation's id alone decides the bucket.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.schema import FIELDS

BUCKETS: Final = 64
"""The number of buckets for an unknown number of operations."""

_OPERATIONS: Final = 1 << 16  # in a bucket: a worker holds one at a time
_MOST: Final = 1024  # tables of fewer records than then are in one would cost more than the records

_WHOSE: Final = ("run_id", "node", "op_id", "seq", "mono_ns", "wall_ns")
_COLUMNS: Final = {
    "submit": (*_WHOSE, "keys", "needed", "timeout_ns"),
    "reschedule": (*_WHOSE, "timeout_ns"),
    "outcome": (*_WHOSE, "outcome", "latency_ns", "lateness_ns", "checks", "inserts", "how", "by"),
}
_USED: Final = {"kind"}.union(*_COLUMNS.values())

DEAL_READ: Final = tuple(name for name, _ in FIELDS if name in _USED)
"""The columns that `deal` needs."""

DEALT: Final = pa.schema([("bucket", pa.int32()), *((kind, pa.binary()) for kind in _COLUMNS)])
"""The result of `deal`: the number of a bucket, and its packed submissions, reschedules or outcomes."""

# At a time: fewer make small tables, of which each costs something, and for more a worker has to ask for memory.
_RECORDS: Final = 1 << 18
_BYTES: Final = 1 << 28  # less than one column of text may have


def buckets_for(operations: int) -> int:
    """The number of buckets for a number of operations.

    >>> buckets_for(0), buckets_for(5_000_000)
    (1, 77)
    """
    return min(operations // _OPERATIONS + 1, _MOST)


def deal(batches: Iterable[pa.RecordBatch], buckets: int = BUCKETS) -> Iterator[pa.RecordBatch]:
    """Deal out the records of operations among some records, in the columns of `DEAL_READ`. O(records).

    Yields:
        Batches with the columns of `DEALT`; in each row all but one of those after the first are null.
    """
    for records in in_portions(batches):
        for kind, columns in _COLUMNS.items():
            chosen = records.filter(pc.equal(records["kind"], kind)).select(columns)
            for place, name in enumerate(("run_id", "node")):
                chosen = chosen.set_column(place, name, chosen[name].dictionary_encode())
            tables = packed(chosen, bucket_of(chosen["op_id"], buckets), buckets)
            rows = [{"bucket": bucket, kind: table} for bucket, table in tables.items()]
            yield pa.RecordBatch.from_pylist(rows, DEALT)


def in_portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to tables of useful size; none is empty."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _RECORDS or size >= _BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def bucket_of(names: pa.ChunkedArray, buckets: int) -> NDArray[np.int64]:
    """Choose a bucket for each name; the same one for equal names, on any machine. O(bytes)."""
    texts = pc.fill_null(names, "").cast(pa.binary()).to_numpy()
    return np.fromiter(map(crc32, texts), np.int64, len(texts)) % buckets


def packed(table: pa.Table, part: NDArray[np.integer], parts: int) -> Mapping[int, bytes]:
    """Pack the rows of each part of a table, in their order; ``part`` has the part of each row, below ``parts``."""
    short = part.astype(np.uint16) if parts <= 1 << 16 else part  # which numpy sorts in linear time
    ordered = table.combine_chunks().take(np.argsort(short, kind="stable"))
    ends = np.cumsum(np.bincount(part, minlength=parts)).tolist()
    found = {}
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        if begin < end:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, ordered.schema) as stream:
                stream.write_table(ordered.slice(begin, end - begin))
            found[number] = sink.getvalue().to_pybytes()
    return found


def unpacked(tables: Iterable[bytes], empty: pa.Table) -> pa.Table:
    """Join packed tables; ``empty`` without any."""
    found = [pa.ipc.open_stream(table).read_all() for table in tables]
    return pa.concat_tables(found).unify_dictionaries() if found else empty


def gathered(dealt: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Unpack all rows of a bucket: its submissions, reschedules and outcomes, in some of the columns of a journal."""
    nothing = arrow_schema().empty_table()
    submits, moves, outcomes = (
        unpacked(dealt[kind].drop_null().to_pylist(), nothing.select(columns))
        for kind, columns in _COLUMNS.items()
    )
    return submits, moves, outcomes
