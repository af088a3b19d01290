"""Records as Arrow columns: for sealed segments, and for Spark's reads of growing ones."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from purgatory_async.journal.schema import FIELDS, Record, kinds

__all__ = ["arrow_schema", "check_columns", "record_batches"]

_TYPES: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.string()),
}


def arrow_schema() -> pa.Schema:
    """The columns of `FIELDS` as Arrow types, all nullable."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in FIELDS])


def check_columns(found: pa.Schema) -> None:
    """Check that a file has the columns of `FIELDS`; additional columns are fine.

    Raises:
        ValueError: A column is missing or of another type; the message names it.
    """
    for field in arrow_schema():
        kind = found.field(field.name).type if field.name in found.names else "missing"
        if kind != field.type:
            raise ValueError(f"its column {field.name} must be {field.type}, got {kind}")


def record_batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """Convert records to batches with the columns of `arrow_schema`, one for each kind present. O(records).

    Holds all records in memory. Records of one kind keep their order; ``seq`` has the order of all.
    """
    by_kind: dict[type[Record], list[Record]] = {kind: [] for kind in kinds()}
    for record in records:
        by_kind[type(record)].append(record)
    schema = arrow_schema()
    for kind, alike in by_kind.items():
        if alike:
            yield pa.RecordBatch.from_arrays(list(_columns(schema, kind, alike)), schema=schema)


def _columns(schema: pa.Schema, kind: type[Record], records: Sequence[Record]) -> Iterator[pa.Array]:
    own = set(kind.__struct_fields__)
    for field in schema:
        if field.name == "kind":
            yield pa.repeat(pa.scalar(kind.__struct_config__.tag, field.type), len(records))
        elif field.name in own:
            column: list[Any] = [getattr(record, field.name) for record in records]
            yield pa.array(column, field.type)
        else:
            yield pa.nulls(len(records), field.type)
