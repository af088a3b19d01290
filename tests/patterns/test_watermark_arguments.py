"""What a watermark refuses, and that a call that was refused has changed nothing."""

from math import inf, nan

import pytest

from purgatory_async import Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import assert_clean, settle
from tests.patterns.guests import Guest

pytestmark = pytest.mark.asyncio


@pytest.fixture
def high(manual_clock) -> Watermark:
    """At zero."""
    return Watermark(timer=Timer(clock=manual_clock))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"initial": 1.5}, TypeError, "initial must be an integer, got float", id="float"),
        pytest.param({"initial": True}, TypeError, "initial must be an integer, got bool", id="bool"),
        pytest.param({"initial": None}, TypeError, "initial must be an integer, got NoneType", id="None"),
        pytest.param({"timer": 5}, TypeError, "timer must be a Timer, got 5", id="no timer"),
        pytest.param({"timer": Purgatory}, TypeError, "timer must be a Timer", id="a purgatory's class"),
    ],
)
async def test_a_bad_argument_is_refused_with_its_value(arguments, error, message):
    with pytest.raises(error, match=message):
        Watermark(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param((1.0,), TypeError, "value must be an integer, got float", id="float"),
        pytest.param((True,), TypeError, "value must be an integer, got bool", id="bool"),
        pytest.param(("1",), TypeError, "value must be an integer, got str", id="str"),
        pytest.param((None,), TypeError, "value must be an integer, got NoneType", id="None"),
        pytest.param((1, nan), ValueError, "timeout.*nan", id="timeout nan"),
        pytest.param((1, -inf), ValueError, "timeout.*-inf", id="timeout minus inf"),
        pytest.param((1, 1e12), ValueError, "timeout.*100 years", id="timeout too long"),
        pytest.param((1, "5"), TypeError, "timeout.*str", id="timeout str"),
        pytest.param((0, "5"), TypeError, "timeout.*str", id="timeout str, reached already"),
    ],
)
async def test_a_bad_reach_is_refused_and_registers_nothing(arguments, error, message, high):
    with pytest.raises(error, match=message):
        await high.reach(*arguments)
    assert (high.waiting, high._purgatory.timer.pending) == (0, 0)
    assert_clean(high._purgatory)
    assert high.advance(2) == 0


@pytest.mark.parametrize("value", [1.0, True, "1", None])
async def test_a_bad_advance_is_refused_and_moves_nothing(value, high):
    guest = Guest(high.reach(1))
    await settle()
    with pytest.raises(TypeError, match=f"value must be an integer, got {type(value).__name__}"):
        high.advance(value)
    assert (high.value, high.waiting) == (0, 1)
    high.advance(1)
    assert await guest.end() == 1


async def test_reach_on_a_full_timer_is_refused_and_documented(manual_clock):
    timer = Timer(clock=manual_clock, max_pending=1)
    timer.call_later(60, lambda: None)
    high = Watermark(timer=timer)
    with pytest.raises(PurgatoryFull, match="timer is full"):
        await high.reach(1, timeout=5)
    assert high.waiting == 0
    assert "PurgatoryFull:" in Watermark.reach.__doc__
