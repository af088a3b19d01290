"""Records as columns: what a segment becomes when it is full, and what Spark reads of one that is not."""

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
    """The columns of `FIELDS` in Arrow's types, all of them nullable."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in FIELDS])


def check_columns(found: pa.Schema) -> None:
    """Compare the columns of a file with those of `FIELDS`; others beside them do no harm.

    Raises:
        ValueError: One is missing or of another type; the message names it.
    """
    for field in arrow_schema():
        kind = found.field(field.name).type if field.name in found.names else "missing"
        if kind != field.type:
            raise ValueError(f"its column {field.name} must be {field.type}, got {kind}")


def record_batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """Lay records out in columns, a batch for each kind among them. O(records).

    The order of records of one kind is kept; that of all is in ``seq``.

    Args:
        records: Any; all of them are held at once.

    Yields:
        Batches with the columns of `arrow_schema`.
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
