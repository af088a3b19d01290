"""Time goes wrong: stalls, jumps, clocks that go back, early wakeups."""

import asyncio
import math

import pytest

from purgatory_async import DelayedOperation, OperationExpired, Outcome, Purgatory, Timer
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


class Impatient(Recorded):
    """Asks whether it is done, and counts how often it was asked; it never is."""

    asked = 0

    def try_complete(self) -> bool:
        self.asked += 1
        return False


def purgatory_on(clock: SteppedClock | ManualClock) -> Purgatory:
    return Purgatory(timer=Timer(clock=clock))


@on_every_loop
async def test_c1_after_a_stall_all_due_expire_in_order_and_slices() -> None:
    clock, record, between = SteppedClock(), [], []
    purgatory = purgatory_on(clock)
    timeouts = [0.001 * (1 + number * 7_919 % 5_000) for number in range(5_000)]
    for number, timeout in enumerate(timeouts):
        purgatory.try_complete_else_watch(Recorded(timeout, timeout, record), [number % 10])
    clock.move(5)
    clock.ring()
    while len(record) < 5_000:
        between.append(len(record))
        await asyncio.sleep(0)
        assert len(between) < 5_000
    assert record == sorted(timeouts)
    assert max(after - before for before, after in zip(between, [*between[1:], 5_000], strict=True)) <= 512
    await settle()
    assert_clean(purgatory)


@on_every_loop
async def test_c1_a_completion_during_the_stall_prevents_expiry() -> None:
    clock, record = SteppedClock(), []
    purgatory = purgatory_on(clock)
    operation = Recorded(1, "expired", record)
    purgatory.try_complete_else_watch(operation, ["key"])
    clock.move(5)
    assert purgatory.complete_for_key("key") == 1
    clock.ring()
    await settle()
    assert (operation.outcome, record) == (Outcome.COMPLETED, [])
    assert_clean(purgatory)


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


@on_every_loop
async def test_c6_a_zero_timeout_tries_once_and_expires_next_turn() -> None:
    record: list[object] = []
    async with Purgatory() as purgatory:
        operation = Impatient(0, "expired", record)
        asyncio.get_running_loop().call_soon(record.append, "ready before")
        purgatory.try_complete_else_watch(operation, ["key"])
        assert (operation.asked, operation.outcome, record) == (1, None, [])
        await asyncio.sleep(0)
        assert (operation.outcome, record) == (Outcome.EXPIRED, ["ready before", "expired"])


@pytest.mark.parametrize("timeout", [-1, -0.001, -1e308], ids=str)
@on_every_loop
async def test_c7_a_negative_timeout_is_as_zero(timeout: float) -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(OperationExpired):
            await purgatory.wait("key", timeout=timeout)
        assert_clean(purgatory)


@pytest.mark.parametrize("timeout", [None, math.inf], ids=str)
def test_c7_none_and_infinity_are_no_deadline(timeout: float | None) -> None:
    clock = ManualClock()
    purgatory = purgatory_on(clock)
    operation: DelayedOperation[None] = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["key"])
    clock.advance(3_155_760_000)
    assert operation.outcome is None
    purgatory.close()


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(math.nan, ValueError), (-math.inf, ValueError), (True, TypeError), ("1", TypeError)],
    ids=["nan", "minus infinity", "a bool", "a string"],
)
@on_every_loop
async def test_c7_what_is_no_timeout_is_refused_and_leaves_nothing(
    timeout: object, error: type[Exception]
) -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(error, match="timeout must be"):
            await purgatory.wait("key", timeout=timeout)
        assert_clean(purgatory)


@pytest.mark.parametrize(
    "phase", [0, 1, 255, 256, 257, 65_535, 65_536, 16_777_216], ids=lambda phase: f"from {phase}"
)
def test_c8_timeouts_at_the_edge_of_a_level_expire_on_their_tick(phase: int) -> None:
    for span in (256, 256**2, 256**3):
        for ticks in (span - 1, span, span + 1):
            clock, record = ManualClock(), []
            clock.advance(phase / 1000)
            purgatory = purgatory_on(clock)
            purgatory.try_complete_else_watch(Recorded(ticks / 1000, "expired", record), ["key"])
            clock.advance((ticks - 1) / 1000)
            assert record == []
            clock.advance(0.001)
            assert record == ["expired"]


@on_every_loop
async def test_c9_a_loop_waking_early_expires_nothing_early() -> None:
    clock, early, expired = SteppedClock(early=0.001), [], []
    purgatory = purgatory_on(clock)

    class NeverEarly(Recorded):
        def on_expiration(self) -> None:
            super().on_expiration()
            if clock.now_ns < self.name:
                early.append(self.name)

    for number in range(500):
        timeout = 0.0003 + number * 0.0047
        deadline_ns = clock.now_ns + round(timeout * 1e9)
        purgatory.try_complete_else_watch(NeverEarly(timeout, deadline_ns, expired), ["key"])
    await clock.run(10)
    assert (len(expired), early) == (500, [])
    assert clock.rung <= 2 * (500 + 10)  # a bucket each and ten to cascade, twice each
    assert_clean(purgatory)


@on_every_loop
async def test_c10_a_new_earlier_deadline_expires_at_its_own_time() -> None:
    clock, record = SteppedClock(), []
    purgatory = purgatory_on(clock)
    purgatory.try_complete_else_watch(Recorded(10, "ten seconds", record), ["key"])
    purgatory.try_complete_else_watch(Recorded(0.01, "ten milliseconds", record), ["key"])
    await clock.run(0.01)
    assert record == ["ten milliseconds"]
    await clock.run(9.99)
    assert record == ["ten milliseconds", "ten seconds"]
    assert_clean(purgatory)


@on_every_loop
async def test_c11_an_idle_purgatory_arms_no_wakeup() -> None:
    clock = SteppedClock()
    purgatory = purgatory_on(clock)
    purgatory.try_complete_else_watch(DelayedOperation(), ["without a deadline"])
    await clock.run(3_600)
    assert clock.asked == []
    purgatory.close()


@on_every_loop
async def test_c11_an_empty_buckets_wakeup_arms_no_other() -> None:
    clock, record = SteppedClock(), []
    purgatory = purgatory_on(clock)
    buckets = [0.05, 0.1, 0.15, 0.2]
    for timeout in buckets * 100:
        purgatory.try_complete_else_watch(Recorded(timeout, timeout, record), ["cancelled"])
    purgatory.try_complete_else_watch(Recorded(0.25, "kept", record), ["kept"])
    purgatory.cancel_for_key("cancelled")
    await clock.run(3_600)
    assert record == ["kept"]
    assert clock.rung <= 2  # one bucket with something in it, and one
    assert_clean(purgatory)
