"""Batches are checked by their header alone, and their place is written into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.kafka.batches import check_batch, place, read_batches
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from tests.kafka.made_batches import batch, records_in


def checked(data: bytes) -> None:
    for found in read_batches(data):
        check_batch(found, data)


def refusal(data: bytes) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        checked(data)
    return caught.value.code


def test_headers_of_consecutive_batches_are_read():
    first, second = batch(b"a", b"b"), batch(b"c", at_ms=5)
    read = list(read_batches(first + second))
    assert [(found.at, found.size_bytes, found.records) for found in read] == [
        (0, len(first), 2),
        (len(first), len(second), 1),
    ]
    assert [found.max_timestamp for found in read] == [1_000, 5]


@given(offset=st.integers(0, 2**62), epoch=st.integers(0, 2**31 - 1))
def test_placing_a_batch_leaves_its_checksum_valid(offset, epoch):
    data = bytearray(b"before" + batch(b"a", b"b"))
    place(data, len(b"before"), offset, epoch)
    placed = bytes(data[len(b"before") :])
    (found,) = read_batches(placed)
    check_batch(found, placed)
    assert [(read.offset, read.epoch) for read in records_in(placed)] == [
        (offset, epoch),
        (offset + 1, epoch),
    ]


@given(cut=st.integers(1, 200))
def test_a_torn_batch_is_corrupt(cut):
    data = batch(b"x" * 150)
    assert refusal(data[: max(1, len(data) - cut)]) is ErrorCode.corrupt_message


def test_a_batch_torn_behind_a_whole_one_is_corrupt():
    assert refusal(batch() + batch()[:-1]) is ErrorCode.corrupt_message


@given(st.data())
def test_a_flipped_byte_of_what_is_covered_is_corrupt(data):
    made = bytearray(batch(b"value"))
    made[data.draw(st.integers(21, len(made) - 1))] ^= data.draw(st.integers(1, 255))
    assert refusal(bytes(made)) is ErrorCode.corrupt_message


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_format_is_refused_by_its_number(magic):
    made = bytearray(batch())
    made[16] = magic
    assert refusal(bytes(made)) is ErrorCode.unsupported_for_message_format


def test_a_short_message_of_the_old_format_is_named_as_such():
    old = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(9)
    assert refusal(old) is ErrorCode.unsupported_for_message_format


@pytest.mark.parametrize("attributes", [0x10, 0x20, 0x30])
def test_a_transactional_batch_is_refused(attributes):
    assert refusal(batch(attributes=attributes)) is ErrorCode.invalid_record


def test_a_count_that_its_offsets_contradict_is_refused():
    from crc32c import crc32c  # noqa: PLC0415 - the extra's

    made = bytearray(batch(b"a", b"b"))
    made[57:61] = (3).to_bytes(4, "big")
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    assert refusal(bytes(made)) is ErrorCode.invalid_record
