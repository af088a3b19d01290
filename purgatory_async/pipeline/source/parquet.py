"""Reads Parquet segments, written by this library or by others: fewer columns and wider integers are accepted."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from purgatory_async.journal.columns import arrow_schema, check_checksum
from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.locations import Location, arrow_source

_REQUIRED: Final = ("run_id", "node", "seq", "kind", "wall_ns", "mono_ns")
_SCHEMA: Final = arrow_schema()
_BATCH: Final = 1 << 16  # records
_REMEDY: Final = "remove it, or put a whole one in its place"
_INTEGERS: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",  # pandas writes integers with missing values as floats
    pa.float64(): "double",
}


def spark_columns(path: Location) -> tuple[tuple[str, str], ...]:
    """Find the names of `FIELDS` that a Parquet file has, each with the Spark SQL type to read it as.

    Reads the whole of a file with a checksum, which Spark's workers ignore; only the end of any other.

    Raises:
        Refused: The file is not Parquet, is damaged, lacks a column of every record, or has a column of a wrong type.
    """
    try:
        with _opened(path) as file:
            schema = file.schema_arrow
    except (ValueError, OSError) as error:
        no_parquet = isinstance(error, pa.ArrowInvalid | OSError)
        fault = "is not a Parquet file" if no_parquet else "is damaged"
        raise Refused(f"{path} {fault}: {error}; {_REMEDY}") from None
    absent = [name for name in _REQUIRED if name not in schema.names]
    if absent:
        raise Refused(f"{path} lacks {', '.join(absent)}, which every record of a journal has")
    present = [(field, schema.field(field.name).type) for field in _SCHEMA if field.name in schema.names]
    return tuple((f.name, _spark_type(path, f, found)) for f, found in present if not pa.types.is_null(found))


def last_wall_ns(path: Location) -> int | None:
    """The greatest ``wall_ns`` of a file by its statistics; None if they do not say, or it cannot be read."""
    try:
        metadata = pq.read_metadata(arrow_source(path))
    except (ValueError, OSError):
        return None
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    found = [column.statistics for column in columns if column.path_in_schema == "wall_ns"]
    greatest = [each.max for each in found if each is not None and each.has_min_max and type(each.max) is int]
    return max(greatest, default=None) if len(greatest) == len(found) else None


@contextmanager
def _opened(path: Location) -> Iterator[pq.ParquetFile]:
    """Open a file after verifying its checksum, if it has one, and its names; ValueError if it is damaged."""
    check_checksum(path)
    with pq.ParquetFile(arrow_source(path), page_checksum_verification=True) as file:
        _check_names(file)
        yield file


def _check_names(file: pq.ParquetFile) -> None:
    """Compare both copies of the column names that pyarrow writes; a column with a damaged name would read as null."""
    if stored := (file.metadata.metadata or {}).get(b"ARROW:schema"):
        names = pa.ipc.read_schema(pa.py_buffer(b64decode(stored))).names
        if names != file.schema_arrow.names:
            raise ValueError(f"its columns must be {names}, got {file.schema_arrow.names}")


def _spark_type(path: Location, field: pa.Field, found: pa.DataType) -> str:
    plain = found.value_type if pa.types.is_dictionary(found) else found
    if pa.types.is_integer(field.type) and plain in _INTEGERS:
        return _INTEGERS[plain]
    if pa.types.is_string(field.type) and is_text(plain):
        return "string"
    if pa.types.is_list(field.type) and is_texts(plain):
        return "array<string>"
    raise Refused(f"{path}: its column {field.name} must be {dict(FIELDS)[field.name]}, got {found}")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column's values are text, however they are stored."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return any(
        is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def is_texts(kind: pa.DataType) -> bool:
    """Whether a column's values are lists of text."""
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and is_text(kind.value_type)


def read_rows(path: Location, after: int, through: int | None) -> Iterator[pa.RecordBatch]:
    """Read a file's records ``after`` one ``seq`` (0 for all) and ``through`` another (None for all).

    Yields:
        Batches with the columns of `arrow_schema`, none of them empty.

    Raises:
        OSError: The file cannot be read.
        pa.ArrowInvalid: It is damaged, or a value does not fit its column.
    """
    try:
        with _opened(path) as file:
            names = [field.name for field in _SCHEMA if field.name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=names):
                seq = batch.column("seq").cast(pa.int64())
                inside = pc.greater(seq, after)
                if through is not None:
                    inside = pc.and_(inside, pc.less_equal(seq, through))
                if (kept := batch.filter(inside)).num_rows:
                    yield conform(kept)
    except ValueError as error:
        raise pa.ArrowInvalid(f"{path}: {error}; {_REMEDY}") from None


def read_group(path: Location, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of `FIELDS` from a row group, counted from 0, of a file that `spark_columns` has checked.

    Raises:
        OSError: The file cannot be read.
        pa.ArrowInvalid: A value does not fit its column.
    """
    schema = pa.schema([_SCHEMA.field(name) for name in columns])
    try:
        with pq.ParquetFile(arrow_source(path), page_checksum_verification=True) as file:
            present = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(_BATCH, row_groups=[group], columns=present, use_threads=False):
                yield conform(batch, schema)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{path}: {error}; {_REMEDY}") from None


def conform(batch: pa.RecordBatch, schema: pa.Schema = _SCHEMA) -> pa.RecordBatch:
    """Cast a batch to the columns of a schema; those that it does not have are null."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def holds_after(path: Location, seq: int) -> bool:
    """Whether a file has records after ``seq``.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not Parquet, or it is damaged.
    """
    with _opened(path) as file:
        later = (pc.any(pc.greater(batch.column(0), seq)) for batch in file.iter_batches(columns=["seq"]))
        return any(found.as_py() for found in later)
