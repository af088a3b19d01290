"""Between what Spark hands to a stage, pandas frames, and what a kernel works on, Arrow tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pandas as pd  # type: ignore[import-untyped] # its stubs are a package of their own
import pyarrow as pa

__all__ = ["Frame", "as_frames", "as_rows", "chosen"]

Frame: TypeAlias = pd.DataFrame


def as_rows(frames: Iterable[Frame]) -> pa.Table:
    """The rows of a shard in one table; Spark cuts what is large. O(bytes)."""
    return pa.concat_tables(pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)


def chosen(rows: pa.Table, which: pa.ChunkedArray, schema: pa.Schema, named: Mapping[str, str]) -> pa.Table:
    """Some of the rows, in the columns that a kernel wants.

    Args:
        rows: With at least those columns.
        which: For each row whether it is wanted.
        schema: What the kernel wants.
        named: What a column of the schema is called in ``rows``, where that differs.
    """
    columns = rows.select([named.get(name, name) for name in schema.names]).filter(which)
    return columns.rename_columns(schema.names).cast(schema)


def as_frames(table: pa.Table) -> Iterator[Frame]:
    """What a stage hands back to Spark: one frame, or none if there are no rows."""
    if table.num_rows:
        yield table.to_pandas()
