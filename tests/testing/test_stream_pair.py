"""`stream_pair`: what a program would see of a real connection, with time and faults in the test's hands."""

import asyncio
from math import inf, nan

import pytest

from purgatory_async.testing import ManualClock, settle, stream_pair

pytestmark = pytest.mark.asyncio


async def reading(reader):
    """A task in the middle of a read."""
    task = asyncio.create_task(reader.readline())
    await settle()
    return task


async def test_each_end_reads_what_the_other_writes():
    pair = stream_pair()
    for source, target in ((pair.left, pair.right), (pair.right, pair.left)):
        source.writer.writelines([b"one\n", b"", b"two\n"])
        await source.writer.drain()
        assert [await target.reader.readline() for _ in range(2)] == [b"one\n", b"two\n"]
    pair.cut()


async def test_bytes_take_their_delay_on_the_clock():
    clock = ManualClock()
    pair = stream_pair(clock=clock, delay=2)
    pair.left.writer.write(b"one\n")
    task = await reading(pair.right.reader)
    clock.advance(1)
    pair.left.writer.write(b"two\n")
    clock.advance(0.999)
    await settle()
    assert not task.done()
    clock.advance(0.001)
    assert await task == b"one\n"
    task = await reading(pair.right.reader)
    assert not task.done()
    clock.advance(1)
    assert await task == b"two\n"
    pair.cut()


@pytest.mark.virtual_time
async def test_without_a_clock_the_delay_is_the_loops():
    pair = stream_pair(delay=60)
    pair.left.writer.write(b"one\n")
    pair.left.writer.close()
    assert await pair.right.reader.read() == b"one\n"
    assert asyncio.get_running_loop().time() == 60
    pair.cut()


async def test_a_cut_loses_what_is_on_its_way_at_both_ends():
    clock = ManualClock()
    pair = stream_pair(clock=clock, delay=2)
    pair.left.writer.write(b"one\n")
    tasks = [await reading(end.reader) for end in (pair.left, pair.right)]
    pair.cut()
    pair.cut()
    clock.advance(2)
    for task, end in zip(tasks, (pair.left, pair.right), strict=True):
        with pytest.raises(ConnectionResetError):
            await task
        with pytest.raises(ConnectionResetError):
            await end.writer.drain()
        end.writer.write(b"as asyncio, lost")
        assert end.writer.is_closing()
    assert pair.right.reader.at_eof() is False


@pytest.mark.parametrize("end", [0, 1])
async def test_a_half_closed_end_still_reads(end):
    pair = stream_pair()
    half, other = (pair.left, pair.right) if end == 0 else (pair.right, pair.left)
    half.writer.write(b"last\n")
    pair.half_close(end)
    pair.half_close(end)
    assert await other.reader.read() == b"last\n"
    other.writer.write(b"answer\n")
    assert await half.reader.readline() == b"answer\n"
    with pytest.raises(RuntimeError, match="after the end of the stream"):
        half.writer.write(b"more")
    pair.cut()


async def test_a_closed_end_is_read_to_its_end():
    pair = stream_pair()
    pair.left.writer.write(b"last\n")
    pair.left.writer.close()
    await pair.left.writer.wait_closed()
    assert await pair.right.reader.read() == b"last\n"
    pair.right.writer.write(b"nobody reads this")
    await settle()
    with pytest.raises(ConnectionResetError):
        await pair.right.writer.drain()


async def test_an_aborted_end_is_a_reset_for_the_other():
    pair = stream_pair()
    pair.left.writer.write(b"lost\n")
    pair.left.writer.transport.abort()
    with pytest.raises(ConnectionResetError):
        await pair.right.reader.readline()


async def test_a_stalled_connection_tells_nobody_until_it_resumes():
    clock = ManualClock()
    pair = stream_pair(clock=clock, delay=1)
    pair.stall()
    pair.left.writer.write(b"one\n")
    task = await reading(pair.right.reader)
    clock.advance(3600)
    await settle()
    assert not task.done()
    pair.left.writer.write(b"two\n")
    pair.resume()
    assert await task == b"one\n"
    task = await reading(pair.right.reader)
    assert not task.done(), "it is still on its way"
    clock.advance(1)
    assert await task == b"two\n"
    pair.cut()


async def test_a_writer_far_ahead_waits_for_its_reader():
    pair = stream_pair()
    sent = 0

    async def write() -> None:
        nonlocal sent
        while sent < 1_000_000:
            pair.left.writer.write(bytes(10_000))
            sent += 10_000
            await pair.left.writer.drain()
        pair.left.writer.close()

    task = asyncio.create_task(write())
    await settle()
    assert 64 * 1024 < sent < 400_000  # asyncio's own limits of both ends
    assert len(await pair.right.reader.read()) == 1_000_000
    await task
    pair.cut()


async def test_cancelling_a_write_that_waits_leaves_the_connection():
    pair = stream_pair()
    pair.stall()
    pair.left.writer.transport.set_write_buffer_limits(high=0)
    pair.left.writer.write(b"one\n")
    task = asyncio.create_task(pair.left.writer.drain())
    await settle()
    assert not task.done()
    task.cancel()
    pair.resume()
    assert await pair.right.reader.readline() == b"one\n"
    pair.cut()


@pytest.mark.parametrize("delay", [-1, nan, inf, "1", None])
async def test_a_bad_delay_is_refused(delay):
    with pytest.raises((TypeError, ValueError), match="delay must be"):
        stream_pair(delay=delay)


async def test_what_is_no_clock_is_refused():
    with pytest.raises(
        TypeError, match="clock must have time_ns and call_at_ns, as a ManualClock has, got 5"
    ):
        stream_pair(clock=5)


async def test_a_third_end_is_refused():
    pair = stream_pair()
    with pytest.raises(ValueError, match="end must be 0 for the left end or 1 for the right one, got 2"):
        pair.half_close(2)
    pair.cut()


async def test_it_says_what_is_on_its_way():
    pair = stream_pair()
    pair.stall()
    pair.left.writer.write(b"12345")
    assert repr(pair) == "<StreamPair stalled on_the_way=5 to the right, 0 to the left>"
    pair.cut()
