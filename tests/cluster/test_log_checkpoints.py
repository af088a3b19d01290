"""What every log keeps of checkpoints and of what it trims, whatever its engine."""

import asyncio
from contextlib import aclosing, suppress

import pytest

from purgatory_async.cluster import LogGap
from tests.cluster.reading import each, positions, read, saved

pytestmark = pytest.mark.asyncio


async def test_a_trimmed_follower_gets_the_oldest_position(connect):
    log, late = await connect(), await connect()
    await log.append([b"%d" % number for number in range(10)])
    await log.save(8, each([b"state"]), keep=2)
    with pytest.raises(LogGap) as caught:
        await read(late, 10)
    assert caught.value.oldest == 7
    assert caught.value.epoch
    assert positions(await read(late, 10, after=6)) == [7, 8, 9, 10]


async def test_a_follower_behind_the_trim_has_no_hole_later(connect):
    log, late = await connect(), await connect()
    await log.append([b"a"])
    came = []
    async with aclosing(late.follow(0)) as stream:
        await anext(stream)
        await log.append([b"b", b"c"])
        await log.save(3, each([b"state"]), keep=0)
        with suppress(LogGap):
            while came[-1:] != [3]:
                came += positions(await anext(stream))
    assert came in ([], [2, 3])  # they may have been here before


async def test_an_emptied_log_goes_on_where_it_was(engine, connect):
    log = await connect()
    before = await log.append([b"a", b"b"])
    await log.save(2, each([b"state"]), keep=0)
    fresh = engine.log()
    head = await fresh.open()
    await fresh.aclose()
    assert (head.position, head.checkpoint) == (2, 2)
    assert head.oldest in {2, 3}  # the newest entry may stay
    assert head.at_us == before.at_us
    after = await log.append([b"c"])
    assert after.first == 3
    assert after.at_us >= before.at_us


@pytest.mark.parametrize(
    "parts", [[b"one"], [b"a", bytes(1_048_576), b"c"], []], ids=["one", "three", "none"]
)
async def test_a_checkpoint_is_loaded_as_it_was_saved(connect, parts):
    log, other = await connect(), await connect()
    await log.append([b"x"] * 5)
    await log.save(4, each(parts), keep=100)
    assert await saved(other) == (4, parts)
    assert positions(await read(other, 5)) == [1, 2, 3, 4, 5]


async def test_a_checkpoint_is_loaded_with_the_epoch(engine, connect):
    log, fresh = await connect(), engine.log()
    await log.append([b"x"])
    await log.save(1, each([b"state"]), keep=5)
    epoch = (await fresh.open()).epoch
    assert (await log.load()).epoch == (await fresh.load()).epoch == epoch
    await fresh.aclose()


async def test_a_newer_checkpoint_replaces_the_older_one(connect):
    log = await connect()
    await log.append([b"x"] * 5)
    await log.save(2, each([b"a", b"b", b"c"]), keep=0)
    await log.save(5, each([b"d"]), keep=1)
    assert await saved(log) == (5, [b"d"])
    assert positions(await read(log, 5, after=4)) == [5]


async def test_the_checkpoint_before_is_kept_until_the_next(engine, connect):
    log = await connect()
    await log.append([b"x"] * 5)
    assert await log.load(below=1) is None
    await log.save(2, each([b"a", b"b", b"c"]), keep=5)
    assert await log.load(below=2) is None
    await log.save(4, each([b"d", b"e"]), keep=5)
    await log.save(5, each([b"f"]), keep=5)
    assert await saved(log) == await saved(log, below=6) == (5, [b"f"])
    assert await saved(log, below=5) == (4, [b"d", b"e"])
    assert await log.load(below=4) is None
    assert await engine.stored_parts() == 3


async def test_no_checkpoint_is_loaded_that_misses_entries(connect):
    log = await connect()
    await log.append([b"x"] * 5)
    await log.save(2, each([b"a"]), keep=2)
    await log.save(4, each([b"b"]), keep=1)
    assert await log.load(below=4) is None
    assert await saved(log) == (4, [b"b"])


@pytest.mark.parametrize("cancelled", [False, True], ids=["raises", "cancelled"])
async def test_an_interrupted_save_is_invisible_and_removed(engine, connect, cancelled):
    log, other = await connect(), await connect()
    await log.append([b"x"] * 5)
    await log.save(2, each([b"old"]), keep=5)
    stalled = asyncio.Event()

    async def broken():
        yield b"half"
        yield b"of it"
        stalled.set()
        if cancelled:
            await asyncio.Event().wait()
        raise RuntimeError("the state cannot be written")

    saving = asyncio.create_task(log.save(4, broken(), keep=0))
    await stalled.wait()
    if cancelled:
        saving.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else RuntimeError):
        await saving
    assert await saved(other) == (2, [b"old"])
    assert positions(await read(other, 5)) == [1, 2, 3, 4, 5]
    await other.save(4, each([b"new"]), keep=5)
    assert await saved(log) == (4, [b"new"])
    assert await engine.stored_parts() == 2  # the old one, too


@pytest.mark.parametrize(
    ("position", "keep", "message"),
    [
        (0, 0, "from 1 to the newest, 5, got 0"),
        (6, 0, "from 1 to the newest, 5, got 6"),
        (2, 0, "above the present checkpoint's, 2, got 2"),
        (3, -1, "keep must be at least 0, got -1"),
    ],
)
async def test_a_save_out_of_bounds_changes_nothing(connect, position, keep, message):
    log = await connect()
    await log.append([b"x"] * 5)
    await log.save(2, each([b"old"]), keep=5)
    with pytest.raises(ValueError, match=message):
        await log.save(position, each([b"new"]), keep=keep)
    assert await saved(log) == (2, [b"old"])
    assert len(await read(log, 5)) == 5
