"""What `Periodic` does when its work raises, is interrupted or is cancelled: the next period still comes."""

import asyncio
import gc
import sys
from collections.abc import Callable

import pytest

from purgatory_async import Timer
from purgatory_async.patterns import Periodic
from purgatory_async.patterns.periodic import Mode
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import SteppedWorld, reports
from tests.patterns.diary import Diary, raising, raising_later

each_mode = pytest.mark.parametrize("mode", ["fixed_delay", "fixed_rate"])
each_kind = pytest.mark.parametrize("kind", [raising, raising_later], ids=["plain", "async"])
interrupts = pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
eager_or_not = pytest.mark.parametrize(
    "eager",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(
                not hasattr(asyncio, "eager_task_factory"), reason="eager tasks came with CPython 3.12"
            ),
        ),
    ],
    ids=["lazy tasks", "eager tasks"],
)


class PlannedBaseError(BaseException):
    """What is no `Exception`, and no interrupt."""


# Work that raises.


@each_mode
@each_kind
@pytest.mark.parametrize("error", [ValueError, PlannedBaseError, GeneratorExit])
@pytest.mark.asyncio
async def test_an_exception_is_reported_and_the_next_period_runs(
    mode: Mode, kind: Callable[[BaseException], Callable[[], object]], error: type[BaseException]
) -> None:
    world, reported, broken = SteppedWorld(), reports(), error("broken")
    beat = Periodic(world.timer(), 1, kind(broken), mode=mode)
    await world.run(3)
    assert [context["exception"] for context in reported] == [broken] * 3
    assert all("Periodic" in context["message"] for context in reported)
    assert (beat.runs, beat.closed) == (3, False)
    await beat.aclose()


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError])
@pytest.mark.asyncio
async def test_a_plain_function_may_raise_coroutine_exceptions(
    error: type[BaseException],
) -> None:
    world, reported = SteppedWorld(), reports()
    beat = Periodic(world.timer(), 1, raising(error()))
    await world.run(3)
    assert [type(context["exception"]) for context in reported] == [error] * 3
    beat.close()


@pytest.mark.asyncio
async def test_the_report_of_async_work_names_the_work() -> None:
    world, reported = SteppedWorld(), reports()
    beat = Periodic(world.timer(), 1, raising_later(ValueError("broken")))
    await world.run(1)
    assert "a_coroutine_that_raises" in reported[0]["message"]
    assert repr(beat)[:9] in reported[0]["message"]
    beat.close()


@each_kind
@pytest.mark.asyncio
async def test_an_exception_handler_that_interrupts_does_not_end_it(
    kind: Callable[[BaseException], Callable[[], object]],
) -> None:
    world, raised = SteppedWorld(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))
    beat = Periodic(world.timer(), 1, kind(ValueError("broken")))
    await world.run(2)
    assert (len(raised), beat.runs) == (2, 2)
    beat.close()


@interrupts
@each_mode
def test_an_interrupt_in_plain_work_propagates_and_it_goes_on(
    interrupt: type[BaseException], mode: Mode
) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    beat = Periodic(timer, 1, raising(interrupt()), mode=mode)
    for runs in (1, 2, 3):
        with pytest.raises(interrupt):
            clock.advance(1)
        assert (beat.runs, timer.pending) == (runs, 1)
    beat.close()


@interrupts
@pytest.mark.parametrize("steps", [0, 1], ids=["in its first step", "after a suspension"])
@eager_or_not
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_in_async_work_propagates_and_it_goes_on(
    interrupt: type[BaseException], steps: int, *, eager: bool
) -> None:
    world = SteppedWorld()

    async def work() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise interrupt

    async def begin() -> Periodic:
        if eager:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        return Periodic(world.timer(), 1, work)

    async def another_period() -> None:
        reports()  # an eager task that is interrupted in its first step reports that as not retrieved
        world.clock.move(1)
        world.clock.ring()
        await some_passes()

    async def some_passes() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        beat = runner.run(begin())
        for runs in (1, 2, 3):
            with pytest.raises(interrupt):
                runner.run(another_period())
            runner.run(some_passes())
            assert (beat.runs, beat.closed) == (runs, False)
        runner.run(beat.aclose())


# Work that is cancelled.


@pytest.mark.asyncio
async def test_cancelled_work_ends_and_the_next_period_runs() -> None:
    world, reported = SteppedWorld(), reports()
    timer = world.timer()
    diary = Diary(timer, takes=(100, 0, 0))
    tasks: list[asyncio.Task[object] | None] = []

    async def work() -> None:
        tasks.append(asyncio.current_task())
        await diary.awaited()

    beat = Periodic(timer, 1, work)
    await world.run(5.5)
    assert tasks[0] is not None
    tasks[0].cancel()
    await world.run(2)
    assert diary.begun == [1, 6.5, 7.5]
    assert (diary.cancelled, reported) == (1, [])
    beat.close()


@pytest.mark.asyncio
async def test_work_cancelled_before_its_first_step_ends_too() -> None:
    clock = ManualClock()
    diary = Diary(timer := Timer(clock=clock))
    before = asyncio.all_tasks()
    beat = Periodic(timer, 1, diary.awaited)
    clock.advance(1)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await settle()
    assert beat.runs == 1
    clock.advance(1)
    await settle()
    assert beat.runs == 2
    beat.close()


# Without a loop.


def test_without_a_loop_plain_work_runs_on_a_manual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, raised = ManualClock(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))
    broken = ValueError("broken")
    timer = Timer(clock=clock)
    beat = Periodic(timer, 1, raising(broken))
    clock.advance(3)
    assert (raised, beat.runs, timer.pending) == ([broken] * 3, 3, 1)
    beat.close()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_without_a_loop_async_work_is_refused_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, raised = ManualClock(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(str(unraisable.exc_value)))
    diary = Diary(timer := Timer(clock=clock))
    beat = Periodic(timer, 1, diary.awaited)
    clock.advance(3)
    gc.collect()
    assert (raised, diary.begun, beat.runs) == (["no running event loop"] * 3, [], 3)
    beat.close()
