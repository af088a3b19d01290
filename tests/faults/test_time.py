"""Time goes wrong: stalls, jumps, clocks that go back, early wakeups."""

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.loop.stepped_clock import SteppedClock

YEAR = 365 * 86_400

on_every_loop = pytest.mark.asyncio


class Recorded(DelayedOperation[None]):
    """Writes down its name when it has expired."""

    def __init__(self, timeout: float, name: object, record: list[object]) -> None:
        super().__init__(timeout)
        self.name = name
        self.record = record

    def on_expiration(self) -> None:
        self.record.append(self.name)


def purgatory_on(clock: SteppedClock | ManualClock) -> Purgatory:
    return Purgatory(timer=Timer(clock=clock))


@on_every_loop
async def test_c2_a_jump_of_a_year_expires_everything_once_and_cheaply() -> None:
    clock, record = SteppedClock(), []
    purgatory = purgatory_on(clock)
    timeouts = [60.0 * 2**power for power in range(18)]
    for timeout in reversed(timeouts):
        purgatory.try_complete_else_watch(Recorded(timeout, timeout, record), ["key"])
    clock.move(YEAR)
    clock.ring()
    await settle()
    assert record == timeouts
    assert clock.rung == 1  # 31 536 000 000 ticks have gone by
    assert_clean(purgatory)


@on_every_loop
async def test_c3_a_clock_going_back_makes_nothing_early_or_lost() -> None:
    clock, record = SteppedClock(start=1_000), []
    timer = Timer(clock=clock)
    timer.call_later(10, record.append, "a second short of its time")
    timer.call_later(8, record.append, "before it went back")
    await clock.run(9)
    clock.move(-500)
    for delay in (0, 0.001, 0.5, 100, 600):
        timer.call_later(delay, record.append, delay)
    clock.ring()
    await settle()
    assert "a second short of its time" not in record
    assert timer.pending + len(record) == 7
    await clock.run(1_200)
    assert (len(record), timer.pending) == (7, 0)
    timer.check_invariants()


@on_every_loop
async def test_c3_a_clock_going_back_in_a_callback_loses_nothing() -> None:
    clock, record = SteppedClock(), []
    timer = Timer(clock=clock)

    def start_another_in_the_past() -> None:
        clock.move(-1)
        for delay in (0.25, 0.5, 5):
            timer.call_later(delay, record.append, delay)

    timer.call_later(10, start_another_in_the_past)
    await clock.run(10)
    assert timer.pending + len(record) == 3
    await clock.run(20)
    assert (record, timer.pending) == ([0.25, 0.5, 5], 0)


@pytest.mark.parametrize(
    ("counts_suspension", "outcome"),
    [
        pytest.param(False, None, id="a monotonic clock stands still meanwhile"),
        pytest.param(True, Outcome.EXPIRED, id="a boot-time clock goes on"),
    ],
)
@on_every_loop
async def test_c4_the_clock_decides_whether_suspension_ages(
    counts_suspension: bool, outcome: Outcome | None
) -> None:
    clock = SteppedClock()
    purgatory = purgatory_on(clock)
    operation: DelayedOperation[None] = DelayedOperation(3_600)
    purgatory.try_complete_else_watch(operation, ["key"])
    clock.move(8 * 3_600 if counts_suspension else 0)  # the lid is closed over night
    clock.ring()
    await clock.run(1)
    assert operation.outcome is outcome
    purgatory.close()


@pytest.mark.parametrize("tick", [1e-6, 0.001, 1.0], ids=lambda tick: f"tick {tick} s")
def test_c5_the_longest_timeout_is_kept_and_a_longer_refused(tick: float) -> None:
    clock = ManualClock()
    purgatory: Purgatory = Purgatory(timer=Timer(tick=tick, clock=clock))
    operation: DelayedOperation[None] = DelayedOperation(3_155_760_000)
    purgatory.try_complete_else_watch(operation, ["key"])
    clock.advance(3_155_760_000 - 1)
    assert operation.outcome is None
    clock.advance(1)
    assert operation.outcome is Outcome.EXPIRED
    for longer in (3_155_760_001, 2**63 / 1000, 2**63):
        with pytest.raises(ValueError, match="100 years"):
            DelayedOperation(longer)
    assert_clean(purgatory)
