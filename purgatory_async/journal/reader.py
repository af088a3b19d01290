"""Reads a journal in order, one segment in memory at a time; the pipeline reads large journals."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from purgatory_async.journal.lines import Damage, read_lines, whole_length
from purgatory_async.journal.schema import FIELDS, Record
from purgatory_async.journal.segments import Segment, list_segments

__all__ = ["read_journal", "read_segment"]

_NAMES = [name for name, _ in FIELDS]


def read_journal(directory: Path | str) -> Iterator[Record]:
    """Read the records of a journal by run and node, in the order of writing.

    Damaged and torn lines are skipped; `read_segment` reports damage. So are segments that are removed meanwhile.

    Raises:
        OSError: The journal cannot be read, or a Parquet segment is damaged.
        ModuleNotFoundError: A segment is Parquet, and pyarrow is not installed.
    """
    for segment in list_segments(Path(directory)):
        with suppress(FileNotFoundError):
            yield from (found for found in read_segment(segment) if not isinstance(found, Damage))


def read_segment(segment: Segment) -> Iterator[Record | Damage]:
    """Read one segment, all of it in memory; yields damage where a line is not a record.

    Raises:
        OSError: It cannot be read, or the Parquet file is damaged.
        ModuleNotFoundError: It is Parquet, and pyarrow is not installed.
    """
    data = _lines(segment)
    if data is not None:
        yield from read_lines(data[: whole_length(data)])
    else:
        yield from _read_parquet(segment.parquet)


def _lines(segment: Segment) -> bytes | None:
    """The segment's JSON lines; None if it is Parquet, or became Parquet since it was listed."""
    if not segment.live:
        return None
    try:
        return segment.path.read_bytes()
    except FileNotFoundError:
        if segment.parquet.exists():
            return None
        raise


def _read_parquet(path: Path) -> Iterator[Record]:
    # Inside: reading JSON lines needs no pyarrow.
    import pyarrow as pa  # noqa: PLC0415 - see above

    try:
        records = _checked_records(path)
    except (ValueError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise OSError(f"{path} is damaged: {error}") from None
    records.sort(key=lambda record: record.seq)  # batches are written kind by kind
    yield from records


def _checked_records(path: Path) -> list[Record]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - see above

    from purgatory_async.journal.columns import check_checksum, check_columns  # noqa: PLC0415 - see above

    check_checksum(path)
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        check_columns(file.schema_arrow)
        names = [name for name in _NAMES if name in file.schema_arrow.names]
        records = [_from_row(row) for batch in file.iter_batches(columns=names) for row in batch.to_pylist()]
        if len(records) != file.metadata.num_rows:
            raise ValueError(f"it must have {file.metadata.num_rows} records, got {len(records)}")
    return records


def _from_row(row: dict[str, object]) -> Record:
    present = {name: value for name, value in row.items() if value is not None or name == "timeout_ns"}
    record: Record = msgspec.convert(present, Record)
    return record
