"""Bad arguments of the patterns that tasks wait in: refused with value and bound, and nothing is registered."""

import inspect
from itertools import product
from math import inf, nan

import pytest

from purgatory_async import Purgatory, PurgatoryError, Timer
from purgatory_async.patterns import Barrier, Correlator, HandOff, Quorum, Watermark
from purgatory_async.testing import ManualClock, assert_clean

BROKERS = ("leader", "first", "second")


def barrier(purgatory, key="group", *, expect=2, timeout=30, **settings):
    return Barrier(purgatory, key, expect=expect, timeout=timeout, **settings)


def correlator(purgatory):
    return Correlator(purgatory)


def hand_off(purgatory, **settings):
    return HandOff(purgatory, **settings)


def quorum(purgatory, need=1, **settings):
    return Quorum(need, **settings)


def watermark(purgatory, initial=0, timer=None):
    return Watermark(initial, timer=purgatory.timer if timer is None else timer)


def expect(purgatory, request_id=7, timeout=5):
    return Correlator(purgatory).expect(request_id, timeout)


def arrive(purgatory, member="a"):
    return barrier(purgatory).arrive(member)


def take(purgatory, *keys, timeout=5):
    jobs = HandOff(purgatory)
    jobs.put("k", "an item that is not taken")
    return jobs.take(*(keys or ("k",)), timeout=timeout)


def reach(purgatory, value=1, timeout=5):
    return watermark(purgatory).reach(value, timeout)


def reached(purgatory, timeout=5):
    return watermark(purgatory).reach(0, timeout)


async def advance(purgatory, value=1):
    watermark(purgatory).advance(value)


BAD_TIMEOUTS = (
    (nan, ValueError, "timeout.*nan"),
    (-inf, ValueError, "timeout.*-inf"),
    (3_155_760_001, ValueError, "timeout.*100 years.*3155760001"),
    (True, TypeError, "timeout.*bool"),
    ("5", TypeError, "timeout.*str"),
)
NO_INTEGERS = (True, 2.0, "2", None)
WITH_TIMEOUT = (barrier, expect, quorum, reach, reached, take)
WITH_INTEGER = (
    (quorum, "need"),
    (hand_off, "max_items"),
    (watermark, "initial"),
    (reach, "value"),
    (advance, "value"),
)
WITH_PURGATORY = (barrier, correlator, hand_off)
CASES = [
    *((call, {"timeout": bad}, *how) for call, (bad, *how) in product(WITH_TIMEOUT, BAD_TIMEOUTS)),
    *(
        (call, {name: bad}, TypeError, f"{name} must be an integer, got {type(bad).__name__}")
        for (call, name), bad in product(WITH_INTEGER, NO_INTEGERS)
        if (name, bad) != ("max_items", None)
    ),
    *(
        (call, {"purgatory": bad}, TypeError, "purgatory must be a Purgatory, got ")
        for call, bad in product(WITH_PURGATORY, (None, "p", Purgatory))
    ),
    (barrier, {"key": []}, TypeError, "unhashable"),
    (barrier, {"expect": 0}, ValueError, "expect must be at least 1, got 0"),
    (barrier, {"expect": -2}, ValueError, "expect must be at least 1, got -2"),
    (barrier, {"expect": True}, TypeError, "expect.*bool"),
    (barrier, {"expect": 2.0}, TypeError, "expect.*float"),
    (barrier, {"expect": None}, TypeError, "expect.*NoneType"),
    (barrier, {"expect": "ab"}, TypeError, r"expect must be.*'ab'.*\['ab'\]"),
    (barrier, {"expect": b"ab"}, TypeError, "expect must be.*ab"),
    (barrier, {"expect": [[]]}, TypeError, "unhashable"),
    (barrier, {"initial_delay": -0.5}, ValueError, "initial_delay.*from 0.*-0.5"),
    (barrier, {"initial_delay": nan}, ValueError, "initial_delay.*nan"),
    (barrier, {"initial_delay": inf}, ValueError, "initial_delay.*3155760000.*inf"),
    (barrier, {"initial_delay": 1e12}, ValueError, "initial_delay.*3155760000.*1000000000000"),
    (barrier, {"initial_delay": "1"}, TypeError, "initial_delay.*str"),
    (barrier, {"initial_delay": None}, TypeError, "initial_delay.*NoneType"),
    (barrier, {"initial_delay": True}, TypeError, "initial_delay.*bool"),
    (barrier, {"on_release": 7}, TypeError, "on_release must be callable, got 7"),
    (arrive, {"member": ["a"]}, TypeError, "unhashable"),
    (expect, {"request_id": None}, ValueError, "request_id must not be None"),
    (expect, {"request_id": [7]}, TypeError, "unhashable"),
    (hand_off, {"max_items": 0}, ValueError, "^max_items must be at least 1, got 0"),
    (hand_off, {"max_items": -(10**400)}, ValueError, "^max_items must be at least 1, got .*1329 bits"),
    (hand_off, {"max_items": inf}, TypeError, "^max_items must be an integer, got float"),
    (quorum, {"need": 0}, ValueError, "need must be at least 1, got 0"),
    (quorum, {"need": -1}, ValueError, "need must be at least 1, got -1"),
    (quorum, {"need": 4, "of": BROKERS}, ValueError, "need must be at most 3, got 4"),
    (quorum, {"of": []}, ValueError, "need must be at most 0, got 1"),
    (quorum, {"of": "abc"}, TypeError, r"of must be an iterable.*'abc'.*\['abc'\]"),
    (quorum, {"of": b"abc"}, TypeError, "of must be an iterable.*abc"),
    (quorum, {"of": 3}, TypeError, "of must be an iterable.*3"),
    (quorum, {"of": [[]]}, TypeError, "unhashable"),
    (watermark, {"timer": 5}, TypeError, "timer must be a Timer, got 5"),
    (watermark, {"timer": Purgatory}, TypeError, "timer must be a Timer"),
]


def case_id(value):
    if isinstance(value, dict):
        return ",".join(f"{name}={bad!r:.20}" for name, bad in value.items())
    return value.__name__ if callable(value) else ""


def begin(call, purgatory, arguments):
    """Call it, up to where it would wait."""
    made = call(**{"purgatory": purgatory, **arguments})
    if inspect.iscoroutine(made):
        made.send(None)


@pytest.mark.parametrize(("call", "arguments", "error", "message"), CASES, ids=case_id)
def test_a_bad_argument_is_refused_and_registers_nothing(call, arguments, error, message):
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    with pytest.raises(error, match=message) as refused:
        begin(call, purgatory, arguments)
    assert not isinstance(refused.value, PurgatoryError)
    assert (purgatory.pending, purgatory.timer.pending) == (0, 0)
    assert_clean(purgatory)


@pytest.mark.parametrize("missing", [{"expect": 2}, {"timeout": 30}], ids=case_id)
def test_a_barrier_needs_both_expect_and_timeout(missing, purgatory):
    with pytest.raises(TypeError, match="missing"):
        Barrier(purgatory, "group", **missing)


@pytest.mark.parametrize("bad", NO_INTEGERS, ids=repr)
def test_a_bad_advance_moves_nothing(bad, manual_clock):
    high = Watermark(timer=Timer(clock=manual_clock))
    with pytest.raises(TypeError, match="value must be an integer"):
        high.advance(bad)
    assert high.value == 0


@pytest.mark.asyncio
async def test_a_bad_timeout_takes_no_item(purgatory):
    jobs = HandOff(purgatory)
    jobs.put("k", "item")
    with pytest.raises(ValueError, match="timeout"):
        await jobs.take("k", timeout=nan)
    assert await jobs.take("k") == ("k", "item")
