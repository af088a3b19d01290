"""Frames come whole and in order, however the bytes were split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import Timer
from purgatory_async.kafka.errors import MalformedRequestError
from purgatory_async.kafka.frames import FrameReader
from purgatory_async.kafka.inbox import Inbox
from purgatory_async.testing import ManualClock
from tests.kafka.protocol import with_length

SCRATCH_BYTES = 16


def made(scratch: memoryview, max_frame_bytes: int = 60, max_bytes: int = 1 << 30) -> FrameReader:
    """A reader with an inbox of its own."""
    inbox = Inbox(max_bytes, Timer(clock=ManualClock()))
    return FrameReader(scratch, max_frame_bytes, inbox, resumed=lambda: None, cut=lambda: None)


def feed(reader: FrameReader, data: bytes, sizes: list[int]) -> None:
    """Receive bytes as a transport does, in pieces of at most these sizes."""
    turn = 0
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data), sizes[turn % len(sizes)])
        buffer[:count] = data[:count]
        reader.received(count)
        data, turn = data[count:], turn + 1


@given(
    frames=st.lists(st.binary(max_size=60), max_size=8),
    sizes=st.lists(st.integers(1, SCRATCH_BYTES * 2), min_size=1, max_size=5),
)
def test_frames_are_whole_however_they_were_split(frames, sizes):
    reader = made(memoryview(bytearray(SCRATCH_BYTES)))
    feed(reader, b"".join(map(with_length, frames)), sizes)
    assert reader.ready_bytes == sum(map(len, frames))
    assert [bytes(reader.take()) for _ in frames] == frames
    assert (len(reader.ready), reader.ready_bytes) == (0, 0)


def test_readers_that_share_a_buffer_do_not_mix_bytes():
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    one, other = made(scratch), made(scratch)
    first, second = with_length(b"a" * 30), with_length(b"b" * 30)
    for at in range(0, len(first), 3):
        feed(one, first[at : at + 3], [3])
        feed(other, second[at : at + 3], [3])
    assert [bytes(one.take()), bytes(other.take())] == [b"a" * 30, b"b" * 30]


@pytest.mark.parametrize("length", [-1, 61, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused_with_the_bound(length):
    reader = made(memoryview(bytearray(SCRATCH_BYTES)))
    with pytest.raises(MalformedRequestError, match=f"0 to 60 bytes, got {length}"):
        feed(reader, length.to_bytes(4, "big", signed=True), [SCRATCH_BYTES])
