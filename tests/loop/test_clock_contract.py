"""Every clock, the real one and the doubles, keeps the `Clock` protocol: so a test on one speaks for the others."""

import asyncio

import pytest

from purgatory_async.clock import Clock, MonotonicClock
from purgatory_async.testing import ManualClock, settle
from tests.loop.stepped_clock import SteppedClock

CLOCKS = [MonotonicClock, ManualClock, SteppedClock]

every_clock = pytest.mark.parametrize("make_clock", CLOCKS, ids=lambda make_clock: make_clock.__name__)

MOST_TURNS = 10_000


async def wake(clock: Clock) -> None:
    """Let everything happen that is due right now."""
    if isinstance(clock, ManualClock):
        clock.advance(0)
    elif isinstance(clock, SteppedClock):
        clock.ring()
    await settle()


async def wake_until_rung(clock: Clock, rung: list[str]) -> None:
    for _ in range(MOST_TURNS):
        if rung:
            return
        await wake(clock)
    raise AssertionError(f"{clock!r} did not wake in {MOST_TURNS} turns")


def running_clock(make_clock: type) -> Clock:
    return make_clock()


@pytest.mark.asyncio
@every_clock
async def test_it_is_a_clock(make_clock: type) -> None:
    assert isinstance(running_clock(make_clock), Clock)


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_the_virtual_loop_is_a_clock_too() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    rung = []
    loop.call_at_ns(loop.time_ns() + 1_234_567_891, lambda: rung.append(loop.time_ns()))
    await asyncio.sleep(2)
    assert rung == [1_234_567_891]


@pytest.mark.asyncio
async def test_no_event_loop_is_taken_for_a_clock() -> None:
    assert not isinstance(asyncio.get_running_loop(), Clock)


@pytest.mark.asyncio
@every_clock
async def test_its_time_is_whole_nanoseconds_that_never_go_back(make_clock: type) -> None:
    clock = running_clock(make_clock)
    readings = [clock.time_ns() for _ in range(100)]
    assert all(type(reading) is int for reading in readings)
    assert readings == sorted(readings)


@pytest.mark.asyncio
@every_clock
@pytest.mark.parametrize("distance_ns", [0, -(10**12)], ids=["for now", "for the past"])
async def test_a_wakeup_comes_once_and_not_before_the_call_returned(
    make_clock: type, distance_ns: int
) -> None:
    clock = running_clock(make_clock)
    rung: list[str] = []
    clock.call_at_ns(clock.time_ns() + distance_ns, lambda: rung.append("rung"))
    assert rung == []
    await wake_until_rung(clock, rung)
    await wake(clock)
    assert rung == ["rung"]


@pytest.mark.asyncio
@every_clock
async def test_a_wakeup_that_was_called_off_does_not_come(make_clock: type) -> None:
    clock = running_clock(make_clock)
    rung: list[str] = []
    now_ns = clock.time_ns()
    called_off = clock.call_at_ns(now_ns, lambda: rung.append("called off"))
    clock.call_at_ns(now_ns, lambda: rung.append("kept"))
    called_off.cancel()
    await wake_until_rung(clock, rung)
    await wake(clock)
    assert rung == ["kept"]


@pytest.mark.asyncio
@every_clock
async def test_calling_off_what_has_come_does_nothing(make_clock: type) -> None:
    clock = running_clock(make_clock)
    rung: list[str] = []
    wakeup = clock.call_at_ns(clock.time_ns(), lambda: rung.append("rung"))
    await wake_until_rung(clock, rung)
    wakeup.cancel()
    assert rung == ["rung"]
