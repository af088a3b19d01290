"""What every pattern that runs functions keeps to: how it closes, and in which context it runs them."""

import asyncio
import contextvars

import pytest

from purgatory_async.patterns import Heartbeat, Periodic, Retrier
from tests.loop.worlds import ManualWorld, SteppedWorld, reports

who = contextvars.ContextVar("who", default="unset")


class Fails:
    """Runs again and again; the runs of a retrier go on because they fail."""

    def __init__(self, work):
        self.work = work

    async def __call__(self):
        await self.work()
        raise OSError("try again")


def beating(timer, work):
    return Periodic(timer, 1, work)


def beating_at_a_rate(timer, work):
    return Periodic(timer, 1, work, mode="fixed_rate")


def pinging(timer, work):
    return Heartbeat(timer, interval=1, idle_timeout=1000, send=work, on_dead=print)


def dying(timer, work):
    return Heartbeat(timer, interval=0.5, idle_timeout=1, send=int, on_dead=work)


def retrying(timer, work):
    retrier = Retrier(timer, delay=1, attempts=None)
    retrier.submit("key", Fails(work))
    return retrier


REPEATED = (beating, beating_at_a_rate, pinging, retrying)
ALL = (*REPEATED, dying)
WITH_CLOSE = (beating, beating_at_a_rate, pinging, dying)
each = pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
each_repeated = pytest.mark.parametrize("make", REPEATED, ids=lambda make: make.__name__)
each_with_close = pytest.mark.parametrize("make", WITH_CLOSE, ids=lambda make: make.__name__)
each_closing = pytest.mark.parametrize(
    ("make", "how"),
    [(make, how) for make in ALL for how in ("close", "aclose") if how == "aclose" or make in WITH_CLOSE],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
each_world = pytest.mark.parametrize("world_class", [ManualWorld, SteppedWorld])
pytestmark = pytest.mark.asyncio


async def close(subject, how):
    """Close it in one of its ways."""
    if how == "aclose":
        await subject.aclose()
    else:
        subject.close()


@each_world
@each_closing
async def test_closed_before_its_first_run_it_never_runs(make, how, world_class):
    world, runs = world_class(), []
    subject = make(timer := world.timer(), lambda: runs.append(1))
    await world.run(0.9)
    await close(subject, how)
    await close(subject, how)
    await subject.aclose()
    assert (timer.pending, timer.next_deadline) == (0, None)
    await world.run(100)
    assert runs == []


@each_with_close
async def test_close_lets_a_run_in_progress_end(make):
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def work():
        await timer.sleep(5)
        ended.append(timer.time())

    subject = make(timer, work)
    await world.run(2)
    subject.close()
    await world.run(100)
    assert (ended, timer.pending) == ([6], 0)
    assert getattr(subject, "skipped", 0) == 0


@each
@pytest.mark.parametrize("how", ["aclose", "twice at once", "after close", "async with"])
async def test_aclose_cancels_the_run_and_waits_until_it_ends(make, how):
    if make is retrying and how in ("after close", "async with"):
        pytest.skip("a retrier has neither")
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def work():
        try:
            await timer.sleep(500)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append(timer.time())

    subject = make(timer, work)
    if how == "async with":
        with pytest.raises(LookupError):  # noqa: PT012 - the block is what is tested
            async with subject as entered:
                assert entered is subject
                await world.run(2)
                raise LookupError
    else:
        await world.run(2)
        if how == "after close":
            subject.close()
        await asyncio.gather(*[subject.aclose() for _ in range(1 + (how == "twice at once"))])
    assert (ended, timer.pending) == ([2], 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@each_closing
@pytest.mark.parametrize("steps", [0, 1], ids=["in its first step", "after a suspension"])
async def test_closed_from_inside_a_run_it_lets_that_end(make, how, steps):
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def work():
        for _ in range(steps):
            await asyncio.sleep(0)
        await close(subject, how)
        await asyncio.sleep(0)
        ended.append(timer.time())

    subject = make(timer, work)
    await world.run(100)
    assert (ended, timer.pending) == ([1], 0)


@each_world
@each_repeated
async def test_it_ends_with_its_timer_and_reports_nothing(make, world_class):
    world, reported, runs = world_class(), reports(), []

    async def work():
        runs.append(1)

    subject = make(timer := world.timer(), work)
    await world.run(1)
    timer.close()
    await world.run(100)
    assert (runs, reported) == ([1], [])
    await subject.aclose()


@each_repeated
async def test_it_ends_with_its_timer_in_the_middle_of_a_run(make):
    world, reported, ended = SteppedWorld(), reports(), []
    timer, release = world.timer(), asyncio.Event()

    async def work():
        await release.wait()
        ended.append(1)

    subject = make(timer, work)
    await world.run(3)
    timer.close()
    release.set()
    await world.run(100)
    assert (ended, reported) == ([1], [])
    await subject.aclose()


@each
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_every_run_begins_in_the_context_it_was_made_in(make, is_async):
    if make is retrying and not is_async:
        pytest.skip("an attempt is async")
    world, seen = SteppedWorld(), []

    def plain():
        seen.append(who.get())
        who.set("the run before")

    async def awaited():
        plain()

    who.set("its maker")
    subject = make(world.timer(), awaited if is_async else plain)
    who.set("another caller")
    await world.run(3)
    assert seen == ["its maker"] * (1 if make is dying else 3)
    assert who.get() == "another caller"
    await subject.aclose()
