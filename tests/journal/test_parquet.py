"""A Parquet segment is read as it was written, or reported as damaged."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_async.journal import columns, segments
from purgatory_async.journal.columns import add_checksum, check_checksum
from purgatory_async.journal.reader import read_segment
from purgatory_async.journal.rotation import seal
from purgatory_async.journal.segments import list_segments
from tests.journal.test_rotation import fill


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A sealed segment, its bytes and its records."""
    directory = tmp_path_factory.mktemp("journal")
    with pytest.MonkeyPatch.context() as patched:
        # Segments are sealed here, not by a process.
        patched.setattr(
            segments, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
        )
        segment, records = fill(directory)
    seal(segment)
    (segment,) = list_segments(directory)
    return segment, segment.path.read_bytes(), records


def footer_start(data):
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def as_written_before_checksums(data):
    place = footer_start(data)
    return data[: place - columns._LENGTH] + data[place:]


def read(segment, data):
    """The records of a file with these bytes, or None if it is reported as damaged."""
    segment.path.write_bytes(data)
    try:
        return list(read_segment(segment))
    except OSError:
        return None


def flipped(data, bits):
    hurt = bytearray(data)
    for bit in bits:
        hurt[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(hurt)
        hurt[bit // 8] ^= 1 << bit % 8


def test_a_segment_with_its_checksum_is_plain_parquet(sealed):
    segment, data, records = sealed
    assert read(segment, data) == records
    assert pq.read_table(segment.path).num_rows == len(records)
    assert b"purgatory_crc32:" in data


def test_any_flipped_bit_of_a_segment_is_reported(sealed):
    segment, data, records = sealed
    place = footer_start(data)
    mark = range((place - columns._LENGTH) * 8, (place - 4) * 8)
    tail = range((len(data) - 8) * 8, len(data) * 8)
    for bit, hurt in flipped(data, [*range(0, len(data) * 8, 211), *mark, *tail]):
        found = read(segment, hurt)
        # Without its mark the checksum is not found, and all of the rest is whole.
        assert found is None or (bit in mark and found == records), bit


@pytest.mark.slow
def test_every_17th_bit_of_a_segment_is_read_right_or_reported(sealed):
    segment, data, records = sealed
    for bit, hurt in flipped(data, range(0, len(data) * 8, 17)):
        assert read(segment, hurt) in (None, records), bit


def test_a_segment_from_before_checksums_is_read(sealed):
    segment, data, records = sealed
    assert read(segment, as_written_before_checksums(data)) == records


def test_a_flipped_column_name_without_a_checksum_is_reported(sealed):
    segment, data, _ = sealed
    old = as_written_before_checksums(data)
    place = old.find(b"lateness_ns", footer_start(old))
    for _, hurt in flipped(old, range(place * 8, (place + 11) * 8)):
        assert read(segment, hurt) is None


def test_a_count_of_rows_that_was_hurt_is_reported(sealed):
    segment, data, _ = sealed
    old = as_written_before_checksums(data)
    # The footer's third field, a zigzag varint of two bytes; the flip makes it one row more or less.
    segment.path.write_bytes(old)
    rows = pq.read_metadata(segment.path).num_rows
    coded = bytes([0x16, (rows * 2 & 0x7F) | 0x80, rows * 2 >> 7])
    place = old.find(coded, footer_start(old))
    assert place > 0
    assert read(segment, old[: place + 1] + bytes([old[place + 1] ^ 2]) + old[place + 2 :]) is None


@pytest.mark.parametrize("name", ["lateness_ns", "timeout_ns", "kind", "seq"])
def test_a_segment_whose_column_is_missing_is_reported_by_name(sealed, name):
    segment, data, _ = sealed
    segment.path.write_bytes(data)
    pq.write_table(pq.read_table(segment.path).drop_columns([name]), segment.path)
    with pytest.raises(OSError, match=rf"is damaged: its column {name} must be \w+, got missing"):
        list(read_segment(segment))


def test_a_segment_from_before_answers_had_columns_is_read(sealed):
    segment, data, records = sealed
    segment.path.write_bytes(data)
    pq.write_table(pq.read_table(segment.path).drop_columns(["how", "by"]), segment.path)
    assert list(read_segment(segment)) == records


def test_a_segment_whose_column_has_another_type_is_reported(sealed):
    segment, data, _ = sealed
    segment.path.write_bytes(data)
    table = pq.read_table(segment.path)
    at = table.schema.get_field_index("checks")
    pq.write_table(table.set_column(at, "checks", table["checks"].cast(pa.int64())), segment.path)
    with pytest.raises(OSError, match="its column checks must be int32, got int64"):
        list(read_segment(segment))


def test_records_copied_to_another_file_have_no_stale_checksum(sealed):
    segment, data, records = sealed
    segment.path.write_bytes(data)
    pq.write_table(pq.read_table(segment.path).slice(0, 5), segment.path)
    found = list(read_segment(segment))
    assert len(found) == 5
    assert all(record in records for record in found)


def test_a_checksum_is_of_all_blocks_of_a_file(sealed, monkeypatch):
    segment, data, _ = sealed
    for block in (1, 7, 4096):
        monkeypatch.setattr(columns, "_BLOCK", block)
        segment.path.write_bytes(data)
        check_checksum(segment.path)
        segment.path.write_bytes(data[:100] + b"?" + data[101:])
        with pytest.raises(ValueError, match=r"its checksum must be [0-9a-f]{8}, got [0-9a-f]{8}"):
            check_checksum(segment.path)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 3, b"\xff" * 40])
def test_what_is_no_parquet_gets_no_checksum_and_is_reported(sealed, data):
    segment, _, _ = sealed
    segment.path.write_bytes(data)
    check_checksum(segment.path)
    assert read(segment, data) is None
    with pytest.raises(ValueError, match="is no Parquet file: cannot add a checksum"):
        add_checksum(segment.path)
