"""Converts between Spark's pandas frames and the kernels' Arrow tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pandas as pd  # type: ignore[import-untyped] # its stubs are a package of their own
import pyarrow as pa

__all__ = ["Frame", "as_frames", "as_rows", "chosen"]

Frame: TypeAlias = pd.DataFrame


def as_rows(frames: Iterable[Frame]) -> pa.Table:
    """Join a shard's rows into one table; Spark splits large ones. O(bytes)."""
    return pa.concat_tables(pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)


def chosen(rows: pa.Table, which: pa.ChunkedArray, schema: pa.Schema, named: Mapping[str, str]) -> pa.Table:
    """Select rows, in a kernel's columns.

    Args:
        rows: With at least those columns.
        which: Whether to take each row.
        schema: The kernel's columns.
        named: The name in ``rows`` of a column of the schema, where it differs.
    """
    columns = rows.select([named.get(name, name) for name in schema.names]).filter(which)
    return columns.rename_columns(schema.names).cast(schema)


def as_frames(table: pa.Table) -> Iterator[Frame]:
    """A stage's rows for Spark: one frame, or none without rows."""
    if table.num_rows:
        yield table.to_pandas()
