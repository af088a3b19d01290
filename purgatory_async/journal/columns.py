"""Records as Arrow columns: for sealed segments, and for Spark's reads of growing ones.

A sealed segment carries a checksum of the whole Parquet file, inside the file: renamed with it, and ignored by every
Parquet reader. Parquet's own checksums cover its pages, not its metadata. Ours covers all bytes but its own, which lie
right before the footer: no offset points there, and a program that copies the records to another file leaves it behind.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol
from zlib import crc32

import pyarrow as pa
from msgspec import UNSET

from purgatory_async.journal.schema import ADDED, FIELDS, Record, kinds

__all__ = ["add_checksum", "arrow_schema", "check_checksum", "check_columns", "record_batches"]

_TYPES: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.string()),
}
_MARK: Final = b"purgatory_crc32:"
_LENGTH: Final = len(_MARK) + 4
_TRAILER: Final = 8  # after the footer: its length and the magic
_BLOCK: Final = 1 << 20


class Readable(Protocol):
    """A file: a path, or what names one elsewhere."""

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """Open it for reading."""
        ...


def arrow_schema() -> pa.Schema:
    """The columns of `FIELDS` as Arrow types, all nullable."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in FIELDS])


def check_columns(found: pa.Schema) -> None:
    """Check that a file has the columns of `FIELDS`; `ADDED` may be missing, and additional columns are fine.

    Raises:
        ValueError: A column is missing or of another type; the message names it.
    """
    for field in arrow_schema():
        if field.name in ADDED and field.name not in found.names:
            continue
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
            if field.name in ADDED:
                column = [None if value is UNSET else value for value in column]
            yield pa.array(column, field.type)
        else:
            yield pa.nulls(len(records), field.type)


def add_checksum(path: Path) -> None:
    """Insert a checksum into a Parquet file that has none. O(its length).

    Raises:
        OSError: The file cannot be read or written.
        ValueError: It is not a Parquet file.
    """
    with path.open("r+b") as file:
        place = _footer_start(file)
        if place < 0:
            raise ValueError(f"{path} is no Parquet file: cannot add a checksum")
        checksum = _crc32(file, place, place)
        file.seek(place)
        footer = file.read()
        file.seek(place)
        file.write(_MARK + checksum.to_bytes(4) + footer)


def check_checksum(path: Readable) -> None:
    """Verify the checksum of a Parquet file, if it has one. O(its length).

    Raises:
        OSError: The file cannot be read.
        ValueError: It differs from what was written.
    """
    with path.open("rb") as file:
        end = _footer_start(file)
        begin = end - _LENGTH
        if begin < 0:
            return
        file.seek(begin)
        record = file.read(_LENGTH)
        if not record.startswith(_MARK):
            return
        written, found = int.from_bytes(record[len(_MARK) :]), _crc32(file, begin, end)
    if written != found:
        raise ValueError(f"its checksum must be {written:08x}, got {found:08x}")


def _footer_start(file: IO[bytes]) -> int:
    """The footer's offset, from the length at the file's end; negative if that length is impossible."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TRAILER))
    return size - _TRAILER - int.from_bytes(file.read(4), "little")


def _crc32(file: IO[bytes], gap: int, resume: int) -> int:
    """The checksum of a file without the bytes from ``gap`` to ``resume``."""
    checksum = 0
    file.seek(0)
    while gap and (block := file.read(min(_BLOCK, gap))):
        checksum, gap = crc32(block, checksum), gap - len(block)
    file.seek(resume)
    while block := file.read(_BLOCK):
        checksum = crc32(block, checksum)
    return checksum
