"""Rows of a shard: their identity, and their encoding as the bytes that Spark keeps.

A shard's state is a few values of many kilobytes, not many small ones: each call to Spark's state is a round trip to
the JVM of about a millisecond, and a shard makes a handful of them per batch, independent of its operations.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["decode", "encode", "identities", "longs", "new_rows"]

Longs = NDArray[np.int64]


def encode(rows: pa.Table) -> bytes | None:
    """Encode rows as an Arrow stream; None without rows, so that an empty shard takes no space. O(bytes)."""
    if not rows.num_rows:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def decode(stored: bytes | None, schema: pa.Schema) -> pa.Table:
    """Decode the result of `encode`, without a copy."""
    if not stored:
        return schema.empty_table()
    with pa.ipc.open_stream(stored) as reader:
        return reader.read_all()


def longs(rows: pa.Table, column: str) -> Longs:
    """A column of integers without nulls as a numpy array."""
    values: Longs = rows[column].to_numpy()
    return values


def identities(tables: Sequence[pa.Table], *columns: str) -> list[Longs]:
    """Number the rows of several tables so that equal rows have equal numbers. O(n log n).

    Where a row is less than another in its last column and equal in those before, its number is less, if that column is
    one of integers.

    Args:
        tables: With ``columns`` of the same types.
        columns: What makes rows equal.

    >>> some = pa.table({"key": ["b", "a"], "at_ns": [5, 7]})
    >>> more = pa.table({"key": ["a"], "at_ns": [7]})
    >>> [numbers.tolist() for numbers in identities([some, more], "key", "at_ns")]
    [[0, 3], [3]]
    """
    numbers: Longs = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for column in columns:
        chunks = [chunk for table in tables for chunk in table[column].chunks]
        ranks = _ranks(pa.chunked_array(chunks, tables[0].schema.field(column).type))
        numbers = numbers * (ranks.max(initial=0) + 1) + ranks
    return np.split(numbers, np.cumsum([table.num_rows for table in tables])[:-1])


def _ranks(values: pa.ChunkedArray) -> Longs:
    """A small number for each value: integers in their order, strings in that of their first appearance."""
    if pa.types.is_integer(values.type):
        return np.unique(values.to_numpy(), return_inverse=True)[1].astype(np.int64)
    coded: Any = values.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    ranks: Longs = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def new_rows(known: pa.Table, rows: pa.Table, *columns: str) -> pa.Table:
    """The rows that are not in ``known``, the first of equal ones, in order; ``columns`` decide. O(n log n)."""
    if not rows.num_rows:
        return rows
    old, fresh = identities([known, rows], *columns)
    first = np.sort(np.unique(fresh, return_index=True)[1])
    first = first[~np.isin(fresh[first], old)]
    return rows if len(first) == rows.num_rows else rows.take(pa.array(first))
