"""What every pattern that runs functions keeps to: closing, contexts, errors, interrupts, and what it lets go of."""

import asyncio
import contextvars
import weakref

import pytest

from purgatory_async.testing import settle
from tests.loop.worlds import ManualWorld, SteppedWorld, by_reference_counts_alone, raising, reports
from tests.patterns.table import RUNS
from tests.patterns.work import each_kind

who = contextvars.ContextVar("who", default="unset")

REPEATED = [row for row in RUNS if row.repeated]
REPORTING = [row for row in RUNS if row.reports]
CLOSINGS = [(row, how) for row in RUNS for how in ("close", "aclose") if how == "aclose" or row.has_close]


def name(value):
    return value if isinstance(value, str) else value.__name__


each = pytest.mark.parametrize("row", RUNS, ids=name)
each_repeated = pytest.mark.parametrize("row", REPEATED, ids=name)
each_closing = pytest.mark.parametrize(("row", "how"), CLOSINGS, ids=name)
each_world = pytest.mark.parametrize("world_class", [ManualWorld, SteppedWorld])
interrupts = pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])


class PlannedBaseError(BaseException):
    """What is no `Exception`, and no interrupt."""


async def close(pattern, how):
    """Close it in one of its ways."""
    if how == "aclose":
        await pattern.aclose()
    else:
        pattern.close()


# Closing.


@pytest.mark.asyncio
@each_world
@each_closing
async def test_closed_before_its_first_run_it_never_runs(row, how, world_class):
    world, runs = world_class(), []
    pattern = row.make(timer := world.timer(), lambda: runs.append(1))
    await world.run(0.9)
    await close(pattern, how)
    await close(pattern, how)
    await pattern.aclose()
    assert (timer.pending, timer.next_deadline) == (0, None)
    await world.run(100)
    assert runs == []


@pytest.mark.asyncio
@pytest.mark.parametrize("row", [row for row in RUNS if row.has_close], ids=name)
async def test_close_lets_a_run_in_progress_end(row):
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def work():
        await timer.sleep(5)
        ended.append(timer.time())

    pattern = row.make(timer, work)
    await world.run(2)
    pattern.close()
    await world.run(100)
    assert (ended, timer.pending) == ([6], 0)
    assert getattr(pattern, "skipped", 0) == 0


@pytest.mark.asyncio
@each
@pytest.mark.parametrize("how", ["aclose", "twice at once", "after close", "async with"])
async def test_aclose_cancels_the_run_and_waits_until_it_ends(row, how):
    if not row.has_close and how in ("after close", "async with"):
        pytest.skip("it has neither")
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def work():
        try:
            await timer.sleep(500)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append(timer.time())

    pattern = row.make(timer, work)
    if how == "async with":
        with pytest.raises(LookupError):  # noqa: PT012 - the block is what is tested
            async with pattern as entered:
                assert entered is pattern
                await world.run(2)
                raise LookupError
    else:
        await world.run(2)
        if how == "after close":
            pattern.close()
        await asyncio.gather(*[pattern.aclose() for _ in range(1 + (how == "twice at once"))])
    assert (ended, timer.pending) == ([2], 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
@each_closing
@pytest.mark.parametrize("steps", [None, 0, 1], ids=["plain", "in its first step", "after a suspension"])
async def test_closed_from_inside_a_run_it_lets_that_end(row, how, steps):
    if steps is None and how == "aclose":
        pytest.skip("aclose is async")
    world, ended = SteppedWorld(), []
    timer = world.timer()

    def plain():
        pattern.close()
        ended.append(timer.time())

    async def work():
        for _ in range(steps):
            await asyncio.sleep(0)
        await close(pattern, how)
        await asyncio.sleep(0)
        ended.append(timer.time())

    pattern = row.make(timer, plain if steps is None else work)
    await world.run(100)
    assert (ended, timer.pending) == ([1], 0)


@pytest.mark.asyncio
@each_world
@each_repeated
@pytest.mark.parametrize("inside", [False, True], ids=["between two runs", "in a run"])
async def test_it_ends_with_its_timer_and_reports_nothing(row, world_class, inside):
    world, reported, runs = world_class(), reports(), []
    timer = world.timer()

    async def work():
        runs.append(1)
        if inside:
            timer.close()

    pattern = row.make(timer, work)
    await world.run(1)
    timer.close()
    await world.run(100)
    assert (runs, reported) == ([1], [])
    await pattern.aclose()


@pytest.mark.asyncio
@each_repeated
async def test_it_ends_with_its_timer_in_the_middle_of_a_run(row):
    world, reported, ended = SteppedWorld(), reports(), []
    timer, release = world.timer(), asyncio.Event()

    async def work():
        await release.wait()
        ended.append(1)

    pattern = row.make(timer, work)
    await world.run(3)
    timer.close()
    release.set()
    await world.run(100)
    assert (ended, reported) == ([1], [])
    await pattern.aclose()


# The context.


@pytest.mark.asyncio
@each
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_every_run_begins_in_the_context_it_was_made_in(row, is_async):
    world, seen = SteppedWorld(), []

    def plain():
        seen.append(who.get())
        who.set("the run before")

    async def awaited():
        plain()

    who.set("its maker")
    pattern = row.make(world.timer(), awaited if is_async else plain)
    who.set("another caller")
    await world.run(3)
    assert seen == ["its maker"] * (3 if row.repeated else 1)
    assert who.get() == "another caller"
    await pattern.aclose()


# Errors and interrupts.


@pytest.mark.asyncio
@pytest.mark.parametrize("row", REPORTING, ids=name)
@each_kind
@pytest.mark.parametrize("error", [ValueError, PlannedBaseError, GeneratorExit])
async def test_an_exception_is_reported_and_the_next_run_comes(row, kind, error):
    world, reported, broken = SteppedWorld(), reports(), error("broken")
    pattern = row.make(timer := world.timer(), work := kind(broken))
    await world.run(3)
    assert [context["exception"] for context in reported] == [broken] * (3 if row.repeated else 1)
    for context in reported:
        names = ["Periodic"] if kind is raising else [type(pattern).__name__, work.__name__]
        assert [name for name in names if name not in context["message"]] == []
    assert timer.pending == row.repeated
    await pattern.aclose()


@interrupts
@pytest.mark.parametrize("row", [row for row in REPORTING if row.repeated], ids=name)
def test_an_interrupt_in_a_plain_run_propagates_and_it_goes_on(row, interrupt):
    world, runs = ManualWorld(), []

    def work():
        runs.append(1)
        raise interrupt

    pattern = row.make(timer := world.timer(), work)
    for number in (1, 2, 3):
        with pytest.raises(interrupt):
            world.clock.advance(1)
        assert (len(runs), timer.pending) == (number, 1)
    pattern.close()


@interrupts
@each_repeated
@pytest.mark.parametrize("steps", [0, 1], ids=["in its first step", "after a suspension"])
@pytest.mark.parametrize("factory", ["lazy", "eager_task_factory"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_in_an_async_run_propagates_and_it_goes_on(row, interrupt, steps, factory):
    if factory != "lazy" and not hasattr(asyncio, factory):
        pytest.skip("eager tasks came with CPython 3.12")
    world, runs = SteppedWorld(), []

    async def work():
        runs.append(1)
        for _ in range(steps):
            await asyncio.sleep(0)
        raise interrupt

    async def begin():
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, factory, None))
        return row.make(world.timer(), work)

    async def pass_a_second():
        reports()  # an eager task that is interrupted in its first step reports that as not retrieved
        for _ in range(10):  # each check of a heartbeat at its time
            world.clock.move(0.1)
            world.clock.ring()
        await some_passes()

    async def some_passes():
        for _ in range(5):
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        pattern = runner.run(begin())
        for number in (1, 2, 3):
            with pytest.raises(interrupt):
                runner.run(pass_a_second())
            runner.run(some_passes())
            assert len(runs) == number
        runner.run(pattern.aclose())


# What it lets go of.


class Watched:
    """What a pattern runs, whose end can be seen."""

    def __init__(self, error=None):
        self.runs = 0
        self.inside = None
        self.errors = []

    def plain(self):
        self.runs += 1
        if self.inside:
            self.inside()

    async def awaited(self):
        await asyncio.sleep(
            0
        )  # what an eager task raises in its first step, asyncio keeps in a cycle of its own
        self.plain()


@pytest.mark.asyncio
@each
@pytest.mark.parametrize("end", ["close", "aclose", "timer", "inside", "run"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_an_ended_pattern_is_freed_at_once_with_its_function(row, end, is_async):
    if (
        (not row.has_close and end in ("close", "inside"))
        or (end == "run") == row.repeated
        or (row.is_async and not is_async)
    ):
        pytest.skip("it does not end so")
    world = SteppedWorld()
    timer = world.timer()

    async def live():
        work = Watched()
        pattern = row.make(timer, work.awaited if is_async else work.plain)
        if end == "inside":
            work.inside = pattern.close
        await world.run(3.1 if row.repeated or end in ("inside", "run") else 0.9)
        if end == "timer":
            timer.close()
        elif end in ("close", "aclose"):
            await close(pattern, end)
        work.inside = None
        assert row.repeated <= work.runs <= 3
        return weakref.ref(pattern), weakref.ref(work)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(live())
        await settle()
        assert [reference() for reference in freed] == [None, None]


class WatchedError(Exception):
    """One whose end can be seen."""


@pytest.mark.asyncio
@each
async def test_an_exception_of_an_async_run_is_released_at_once(row):
    world = SteppedWorld()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    freed = []

    async def work():
        await asyncio.sleep(0)
        error = WatchedError("broken")
        freed.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    pattern = row.make(world.timer(), work)
    with by_reference_counts_alone():
        await world.run(1)
        assert freed[0]() is None
    await pattern.aclose()
