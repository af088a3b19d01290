"""Integers cost what floats cost: both take the same way through the code, call by call."""

from collections.abc import Callable
from typing import Any

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock, settle
from tests.calls import noted_calls
from tests.loop.stepped_clock import SteppedClock

NUMBERS = pytest.mark.parametrize(
    "number", [-1, 0, 1, 5, 86_400, 3_155_760_000], ids=lambda number: f"{number} s"
)


def calls_of(work: Callable[[], object]) -> list[str]:
    """The Python functions that are called, in order."""
    with noted_calls() as called:
        work()
    return called


class Setting:
    """A purgatory whose timer is in use and has seen other delays."""

    def __init__(self) -> None:
        self.timer = Timer(clock=SteppedClock(start=1.0))
        self.purgatory = Purgatory(timer=self.timer)
        for delay in (7_000_000.0, 0.25):
            self.handle = self.timer.call_later(delay, int)
        self.purgatory.try_complete_else_watch(DelayedOperation(3.0), ["warm"])

    def close(self) -> None:
        self.purgatory.close()
        self.timer.close()


def watch(setting: Setting, number: float) -> None:
    setting.purgatory.try_complete_else_watch(DelayedOperation(number), ["key"])


def watch_twice(setting: Setting, number: float) -> None:
    watch(setting, number)
    watch(setting, number)


def wait(setting: Setting, number: float) -> None:
    waiting = setting.purgatory.wait("key", timeout=number)
    waiting.send(None)
    waiting.close()


def sleep(setting: Setting, number: float) -> None:
    sleeping = setting.timer.sleep(number)
    sleeping.send(None)
    sleeping.close()


def call_later(setting: Setting, number: float) -> None:
    setting.timer.call_later(number, int)


def call_later_twice(setting: Setting, number: float) -> None:
    call_later(setting, number)
    call_later(setting, number)


USES = [
    lambda setting, number: DelayedOperation(number),
    watch,
    watch_twice,
    wait,
    sleep,
    call_later,
    call_later_twice,
    lambda setting, number: setting.timer.call_at(number, int),
    lambda setting, number: setting.handle.reschedule(number),
]
NAMES = ["make", "watch", "watch twice", "wait", "sleep", "call_later", "twice", "call_at", "reschedule"]


@NUMBERS
@pytest.mark.parametrize("use", USES, ids=NAMES)
@pytest.mark.asyncio
async def test_an_integer_makes_the_same_calls_as_a_float(
    use: Callable[[Setting, float], object], number: int
) -> None:
    called = []
    for kind in (float, int):
        setting = Setting()
        called.append(calls_of(lambda kind=kind, setting=setting: use(setting, kind(number))))
        await settle()
        setting.close()
    assert called[0] == called[1]


@pytest.mark.parametrize("number", [-7, 0, 1, 5, -(10**400)], ids=lambda number: str(number)[:5])
def test_the_time_of_a_handle_is_in_seconds(number: int) -> None:
    timer = Timer(clock=ManualClock(start=2.0))
    when = timer.call_at(number, int).when
    assert (type(when), when) == (float, max(number, -3_155_760_000))


@pytest.mark.parametrize("number", [1, 1.0], ids=repr)
def test_a_bool_is_refused_although_it_equals_the_last_delay(number: float) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    for _ in range(3):
        timer.call_later(number, int)
    uses: list[Callable[[Any], object]] = [
        lambda delay: timer.call_later(delay, int),
        lambda delay: timer.call_at(delay, int),
        DelayedOperation,
    ]
    for use in uses:
        with pytest.raises(TypeError, match="got bool"):
            use(True)
    assert timer.pending == 3
    clock.advance(1)
    assert timer.pending == 0


def test_a_bool_put_into_an_operation_is_refused_when_watched() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    operation = DelayedOperation(1)
    for _ in range(3):
        purgatory.try_complete_else_watch(DelayedOperation(1), ["key"])
    operation.timeout = True
    with pytest.raises(TypeError, match="got bool"):
        purgatory.try_complete_else_watch(operation, ["key"])
    assert (purgatory.pending, purgatory.timer.pending) == (3, 3)
    purgatory.close()


@pytest.mark.parametrize("number", [1, 60, 86_400, 3_000_000_000], ids=lambda number: f"{number} s")
def test_an_integer_ends_on_the_tick_of_its_float(number: int) -> None:
    clock = ManualClock(start=0.0123)
    timer, calls = Timer(clock=clock), []
    timer.call_later(0.001, int)  # so that the timer is in use
    handles = [timer.call_later(kind(number), calls.append, kind) for kind in (float, int)]
    assert handles[0].when == handles[1].when
    assert {handle.deadline_tick for handle in handles} == {timer.queue.now_tick + number * 1000 + 1}
    clock.advance(number + 0.001)
    assert calls == [float, int]


@pytest.mark.parametrize("years", [-400, -50, 140, 400], ids=lambda years: f"{years} years")
@pytest.mark.parametrize("delay", [0, 0.5, 3_155_760_000, 3_155_760_000.0], ids=repr)
def test_a_clock_may_be_far_from_its_origin(years: int, delay: float) -> None:
    clock = ManualClock(start=min(0, years) * 31_557_600)
    for _ in range(years // 20):
        clock.advance(20 * 31_557_600)
    timer, calls = Timer(clock=clock), []
    handles = [timer.call_later(delay, lambda: calls.append(clock.time())) for _ in range(2)]
    handles.append(timer.call_later(delay, int))
    assert {handle.when for handle in handles} == {clock.time() + delay}
    assert handles.pop().cancel()
    clock.advance(delay)
    assert calls == [years * 31_557_600 + delay] * 2


@pytest.mark.asyncio
async def test_a_timer_in_use_counts_on_for_centuries() -> None:
    clock, calls = SteppedClock(start=1.0), []
    timer = Timer(clock=clock)
    for _ in range(6):
        handle = timer.call_later(3_155_760_000, lambda: calls.append(clock.time_ns()))
        purgatory, operation = Purgatory(timer=timer), DelayedOperation(3_155_760_000.0)
        purgatory.try_complete_else_watch(operation, ["key"])
        await clock.run(3_155_760_000)
        assert (handle.fired, operation.outcome) == (True, "expired")
        timer.check_invariants()
    assert calls == [(1 + 3_155_760_000 * turn) * 10**9 for turn in range(1, 7)]
