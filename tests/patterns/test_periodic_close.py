"""How `Periodic` ends, wherever it is closed from; and what it sees, keeps and shows."""

import asyncio
import weakref
from collections.abc import Callable

import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import Periodic
from purgatory_async.patterns.periodic import Mode
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, World, reports
from tests.patterns.diary import WORLD_NAMES, WORLDS, Diary, by_reference_counts_alone

each_world = pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)
each_mode = pytest.mark.parametrize("mode", ["fixed_delay", "fixed_rate"])


class Watched(Periodic):
    """One whose end can be seen."""


class WatchedError(Exception):
    """One whose end can be seen."""


# Closing.


@each_world
@each_mode
@pytest.mark.asyncio
async def test_closed_from_inside_plain_work_it_does_not_run_again(
    world_class: type[World], mode: Mode
) -> None:
    world = world_class()
    timer = world.timer()

    def work() -> None:
        beat.close()

    beat = Periodic(timer, 1, work, mode=mode)
    await world.run(5)
    assert (beat.runs, beat.closed, timer.pending) == (1, True, 0)


@pytest.mark.asyncio
async def test_aclose_waits_for_work_that_resists_cancellation() -> None:
    world, reported = SteppedWorld(), reports()
    timer, release = world.timer(), asyncio.Event()

    async def work() -> None:
        try:
            await timer.sleep(100)
        except asyncio.CancelledError:
            await release.wait()
            raise ValueError("broken at the end") from None

    beat = Periodic(timer, 1, work)
    await world.run(1)
    closing = asyncio.create_task(beat.aclose())
    await settle()
    assert not closing.done()
    release.set()
    await closing
    await settle()
    assert [str(context["exception"]) for context in reported] == ["broken at the end"]


# Its timer closes.


@each_world
@pytest.mark.asyncio
async def test_it_is_closed_with_its_timer_from_inside_the_work(world_class: type[World]) -> None:
    world, reported = world_class(), reports()
    timer = world.timer()
    beat = Periodic(timer, 1, timer.close)
    await world.run(5)
    assert (beat.runs, beat.closed, reported) == (1, True, [])


@pytest.mark.asyncio
async def test_a_timer_filled_while_it_drains_ends_it_with_a_report() -> None:
    world, reported = SteppedWorld(), reports()
    timer = world.timer(max_pending=1)
    purgatory = Purgatory(timer=timer)
    waiting = asyncio.create_task(purgatory.wait("key"))
    beat = Periodic(timer, 1, print)
    await settle()
    draining = asyncio.create_task(purgatory.drain(timeout=5))
    await world.run(3)
    assert beat.closed
    assert [context["exception"].args for context in reported] == [
        ("the timer is full: 1 are pending, max_pending is 1",)
    ]
    purgatory.complete_for_key("key")
    assert await draining
    await waiting


# What it sees, keeps and shows.


@pytest.mark.parametrize("how", ["closed", "its timer closed", "closed from inside", "aclosed"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.asyncio
async def test_closed_it_is_freed_with_its_work_at_once(how: str, *, is_async: bool) -> None:
    world = SteppedWorld()
    timer = world.timer()
    inside: list[Callable[[], object]] = []

    async def run() -> tuple["weakref.ref[object]", "weakref.ref[object]"]:
        diary = Diary(timer)

        def plain() -> None:
            diary.plain()
            for close in inside:
                close()

        async def awaited() -> None:
            await asyncio.sleep(0)
            plain()

        beat = Watched(timer, 1, awaited if is_async else plain)
        await world.run(3)
        if how == "closed":
            beat.close()
        elif how == "aclosed":
            await beat.aclose()
        elif how == "its timer closed":
            timer.close()
        else:
            inside.append(beat.close)
            await world.run(1)
            inside.clear()
        assert len(diary.begun) >= 3
        return weakref.ref(beat), weakref.ref(diary)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(run())
        await settle()
        assert [reference() for reference in freed] == [None, None]


@pytest.mark.asyncio
async def test_an_exception_of_async_work_is_released_at_once() -> None:
    world = SteppedWorld()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    freed: list[weakref.ref[object]] = []

    async def work() -> None:
        await asyncio.sleep(
            0
        )  # what an eager task raises in its first step, asyncio keeps in a cycle of its own
        error = WatchedError("broken")
        freed.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    beat = Periodic(world.timer(), 1, work)
    with by_reference_counts_alone():
        await world.run(1)
        assert freed[0]() is None
    beat.close()


@pytest.mark.asyncio
async def test_its_repr_tells_mode_period_state_and_runs() -> None:
    world = SteppedWorld()
    release = asyncio.Event()
    beat = Periodic(world.timer(), 2.5, release.wait, mode="fixed_rate")
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, next at 2.5 s, runs=0>"
    await world.run(3)
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, running, runs=1>"
    await beat.aclose()
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, closed, runs=1>"
