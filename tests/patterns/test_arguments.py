"""Bad arguments: the message names what was wrong, the value and the bound, and nothing was registered."""

import asyncio
import inspect
import re
from decimal import Decimal
from itertools import product
from math import inf, nan

import pytest

from purgatory_async import Purgatory, PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import check_exception
from purgatory_async.patterns import (
    Barrier,
    Broadcast,
    Correlator,
    HandOff,
    Heartbeat,
    KeyedLock,
    KeyedSemaphore,
    Periodic,
    Quorum,
    Retrier,
    SingleFlight,
    Watermark,
)
from purgatory_async.patterns._arguments import check_function, check_integer, check_number
from purgatory_async.testing import ManualClock, assert_clean

BROKERS = ("leader", "first", "second")
LONG_INTEGER = 10**400


def barrier(purgatory, key="group", *, expect=2, timeout=30, **settings):
    return Barrier(purgatory, key, expect=expect, timeout=timeout, **settings)


def broadcast(purgatory, **settings):
    return Broadcast(purgatory, **settings)


def subscribe(purgatory, **settings):
    return broadcast(purgatory).subscribe(**settings)


def next_item(purgatory, after=0, timeout=5):
    return broadcast(purgatory).next(after, timeout=timeout)


def correlator(purgatory, **settings):
    return Correlator(purgatory, **settings)


def hand_off(purgatory, **settings):
    return HandOff(purgatory, **settings)


def keyed_lock(purgatory):
    return KeyedLock(purgatory)


def keyed_semaphore(purgatory, permits=1):
    return KeyedSemaphore(purgatory, permits)


def quorum(purgatory, need=1, **settings):
    return Quorum(need, **settings)


def watermark(purgatory, initial=0, timer=None):
    return Watermark(initial, timer=purgatory.timer if timer is None else timer)


def periodic(purgatory, period=1, work=int, timer=None, **settings):
    return Periodic(timer or purgatory.timer, period, work, **settings)


def heartbeat(purgatory, send=int, on_dead=int, timer=None, **settings):
    return Heartbeat(timer or purgatory.timer, send=send, on_dead=on_dead, **settings)


def retrier(purgatory, timer=None, **settings):
    return Retrier(timer or purgatory.timer, **settings)


async def attempt():
    """Something to attempt."""


async def endless():
    """What is no call."""
    yield


def submit(purgatory, key="key", attempt=attempt):
    retrier(purgatory).submit(key, attempt)


def expect(purgatory, request_id=7, timeout=5):
    return Correlator(purgatory).expect(request_id, timeout)


def request(purgatory, send=asyncio.sleep, timeout=5):
    return Correlator(purgatory).request(send, timeout=timeout)


def arrive(purgatory, member="a"):
    return barrier(purgatory).arrive(member)


def take(purgatory, *keys, timeout=5):
    jobs = HandOff(purgatory)
    jobs.put("k", "an item that is not taken")
    return jobs.take(*(keys or ("k",)), timeout=timeout)


def acquire(purgatory, key="k", timeout=5):
    return KeyedLock(purgatory).acquire(key, timeout=timeout)


def hold(purgatory, key="k", timeout=5):
    return KeyedLock(purgatory).hold(key, timeout=timeout).__aenter__()


def single_flight(purgatory, **settings):
    return SingleFlight(purgatory, **settings)


def run(purgatory, key="key", make=attempt, timeout=5):
    return single_flight(purgatory).run(key, make, timeout=timeout)


def put_wait(purgatory, key="k", timeout=5):
    return HandOff(purgatory).put_wait(key, "an item that is not put", timeout=timeout)


def join(purgatory, *keys, timeout=5):
    return HandOff(purgatory).join(*keys, timeout=timeout)


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
WITH_TIMEOUT = (
    *(acquire, barrier, expect, hold, join, next_item, put_wait, quorum, reach, reached, request, run, take),
)
WITH_INTEGER = (
    (quorum, "need"),
    (broadcast, "max_bytes"),
    (broadcast, "max_items"),
    (hand_off, "max_items"),
    (next_item, "after"),
    (subscribe, "after"),
    (keyed_semaphore, "permits"),
    (watermark, "initial"),
    (reach, "value"),
    (advance, "value"),
    (single_flight, "max_kept"),
)
WITH_PURGATORY = (barrier, broadcast, correlator, hand_off, keyed_lock, keyed_semaphore, single_flight)
CASES = [
    *((call, {"timeout": bad}, *how) for call, (bad, *how) in product(WITH_TIMEOUT, BAD_TIMEOUTS)),
    *(
        (call, {name: bad}, TypeError, f"{name} must be an integer, got {type(bad).__name__}")
        for (call, name), bad in product(WITH_INTEGER, NO_INTEGERS)
        if bad is not None or call not in (broadcast, hand_off, subscribe)
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
    (broadcast, {"max_items": 0}, ValueError, "^max_items must be at least 1, got 0"),
    (broadcast, {"max_items": None}, TypeError, "^max_items must be an integer, got NoneType"),
    (broadcast, {"max_bytes": 0}, ValueError, "^max_bytes must be at least 1, got 0"),
    (broadcast, {"size_of": 7}, TypeError, "size_of must be callable, got 7"),
    (broadcast, {"size_of": attempt}, TypeError, "size_of must be a plain function"),
    *(
        (call, {"after": -1}, ValueError, "^after must be at least 0, got -1")
        for call in (subscribe, next_item)
    ),
    *(
        (subscribe, {"on_lag": bad}, ValueError, "on_lag must be 'tell' or 'raise', got")
        for bad in ("skip", None, [])
    ),
    (acquire, {"key": ["k"]}, TypeError, "unhashable"),
    (keyed_semaphore, {"permits": 0}, ValueError, "^permits must be at least 1, got 0"),
    (arrive, {"member": ["a"]}, TypeError, "unhashable"),
    (correlator, {"ids": range(0)}, ValueError, r"ids must not be empty, got range\(0, 0\)"),
    *((correlator, {"ids": bad}, TypeError, "ids must be a range, got ") for bad in (None, 255, [1, 2])),
    *((request, {"send": bad}, TypeError, f"send must be callable, got {bad}") for bad in (None, 7)),
    (expect, {"request_id": None}, ValueError, "request_id must not be None"),
    (expect, {"request_id": [7]}, TypeError, "unhashable"),
    (hand_off, {"max_items": 0}, ValueError, "^max_items must be at least 1, got 0"),
    (hand_off, {"max_items": -LONG_INTEGER}, ValueError, "^max_items must be at least 1, got .*1329 bits"),
    (hand_off, {"max_items": inf}, TypeError, "^max_items must be an integer, got float"),
    (quorum, {"need": 0}, ValueError, "need must be at least 1, got 0"),
    (quorum, {"need": -1}, ValueError, "need must be at least 1, got -1"),
    (quorum, {"need": 4, "of": BROKERS}, ValueError, "need must be at most 3, got 4"),
    (quorum, {"of": []}, ValueError, "need must be at most 0, got 1"),
    (quorum, {"of": "abc"}, TypeError, r"of must be an iterable.*'abc'.*\['abc'\]"),
    (quorum, {"of": b"abc"}, TypeError, "of must be an iterable.*abc"),
    (quorum, {"of": 3}, TypeError, "of must be an iterable.*3"),
    (quorum, {"of": [[]]}, TypeError, "unhashable"),
    *(
        (call, {"timer": bad}, TypeError, f"timer must be a Timer, got {re.escape(repr(bad))}")
        for call, bad in product((watermark, periodic, heartbeat, retrier), (5.0, Purgatory, Timer))
    ),
    *((submit, {"key": bad}, TypeError, "unhashable") for bad in ([], {}, set())),
    (submit, {"attempt": None}, TypeError, "attempt must be callable, got None"),
    (periodic, {"period": 0}, ValueError, r"period.*1e-06.*3155760000.*got 0"),
    (periodic, {"period": -1.5}, ValueError, r"period.*1e-06.*got -1\.5"),
    (periodic, {"period": 9e-7}, ValueError, r"period.*1e-06.*got 9e-07"),
    (periodic, {"period": 3_155_760_001}, ValueError, r"period.*3155760000.*got 3155760001"),
    (periodic, {"period": inf}, ValueError, r"period.*3155760000.*got inf"),
    (periodic, {"period": nan}, ValueError, r"period.*1e-06.*got nan"),
    (periodic, {"period": LONG_INTEGER}, ValueError, r"period.*3155760000.*an integer of 1329 bits"),
    (periodic, {"mode": "fixed"}, ValueError, r"mode.*'fixed_delay'.*'fixed_rate'.*got 'fixed'"),
    (periodic, {"mode": None}, ValueError, r"mode.*'fixed_delay'.*got None"),
    (periodic, {"missed": "drop"}, ValueError, r"missed.*'skip'.*'burst'.*'delay'.*got 'drop'"),
    (heartbeat, {"interval": 0}, ValueError, r"interval.*3e-06.*got 0"),
    (heartbeat, {"interval": 2e-6}, ValueError, r"interval.*3e-06.*got 2e-06"),
    (heartbeat, {"interval": nan}, ValueError, r"interval.*3e-06.*got nan"),
    (heartbeat, {"interval": inf}, ValueError, r"interval.*3155760000.*got inf"),
    (heartbeat, {"interval": 60, "idle_timeout": 119.9}, ValueError, r"idle_timeout.*120.*got 119\.9"),
    (heartbeat, {"interval": 60, "idle_timeout": nan}, ValueError, r"idle_timeout.*120.*got nan"),
    (heartbeat, {"interval": 60, "idle_timeout": inf}, ValueError, r"idle_timeout.*3155760000.*got inf"),
    (heartbeat, {"interval": 60, "idle_timeout": -1}, ValueError, r"idle_timeout.*120.*got -1"),
    (
        heartbeat,
        {"idle_timeout": LONG_INTEGER},
        ValueError,
        r"idle_timeout.*3155760000.*an integer of 1329 bits",
    ),
    (single_flight, {"keep": -1}, ValueError, r"keep.*from 0 to 3155760000.*got -1"),
    (single_flight, {"keep": inf}, ValueError, r"keep.*3155760000.*got inf"),
    (single_flight, {"keep": nan}, ValueError, r"keep.*got nan"),
    (single_flight, {"keep": None}, TypeError, r"keep.*number.*NoneType"),
    (single_flight, {"max_kept": 0}, ValueError, r"max_kept.*at least 1.*got 0"),
    (single_flight, {"when_left": "stop"}, ValueError, r"when_left.*'cancel', 'finish'.*got 'stop'"),
    (run, {"key": []}, TypeError, "unhashable"),
    (run, {"make": None}, TypeError, "make must be callable, got None"),
    (run, {"make": endless}, TypeError, "make must be a plain or async function, got the async generator"),
    (retrier, {"delay": 0}, ValueError, r"delay.*1e-06.*got 0"),
    (retrier, {"delay": -5}, ValueError, r"delay.*1e-06.*got -5"),
    (retrier, {"delay": 788_940_001}, ValueError, r"delay.*788940000.*got 788940001"),
    (retrier, {"delay": inf}, ValueError, r"delay.*788940000.*got inf"),
    (retrier, {"delay": nan}, ValueError, r"delay.*got nan"),
    (retrier, {"attempts": 0}, ValueError, r"attempts.*at least 1.*got 0"),
    (retrier, {"attempts": -LONG_INTEGER}, ValueError, r"attempts.*at least 1.*an integer of 1329 bits"),
    (retrier, {"backoff": 0.99}, ValueError, r"backoff.*from 1 .*got 0\.99"),
    (retrier, {"backoff": inf}, ValueError, r"backoff.*got inf"),
    (retrier, {"jitter": -0.1}, ValueError, r"jitter.*from 0 to 1.*got -0\.1"),
    (retrier, {"jitter": 1.1}, ValueError, r"jitter.*from 0 to 1.*got 1\.1"),
    (retrier, {"jitter": nan}, ValueError, r"jitter.*from 0 to 1.*got nan"),
    (retrier, {"delay": 5, "max_delay": 4.9}, ValueError, r"max_delay.*from 5 .*got 4\.9"),
    (retrier, {"max_delay": inf}, ValueError, r"max_delay.*788940000.*got inf"),
    (retrier, {"max_pending": 0}, ValueError, r"max_pending.*at least 1.*got 0"),
    (periodic, {"period": "1"}, TypeError, r"period.*number.*str"),
    (periodic, {"period": None}, TypeError, r"period.*number.*NoneType"),
    (periodic, {"period": True}, TypeError, r"period.*number.*bool"),
    (periodic, {"work": None}, TypeError, r"work.*callable.*None"),
    (periodic, {"work": attempt.__name__}, TypeError, r"work.*callable.*'attempt'"),
    (heartbeat, {"interval": "60"}, TypeError, r"interval.*number.*str"),
    (heartbeat, {"idle_timeout": False}, TypeError, r"idle_timeout.*number.*bool"),
    (heartbeat, {"send": None}, TypeError, r"send.*callable.*None"),
    (heartbeat, {"on_dead": 3}, TypeError, r"on_dead.*callable.*3"),
    (retrier, {"delay": None}, TypeError, r"delay.*number.*NoneType"),
    (retrier, {"attempts": 1.0}, TypeError, r"attempts.*integer.*float"),
    (retrier, {"attempts": True}, TypeError, r"attempts.*integer.*bool"),
    (retrier, {"backoff": "2"}, TypeError, r"backoff.*number.*str"),
    (retrier, {"jitter": None}, TypeError, r"jitter.*number.*NoneType"),
    (retrier, {"max_delay": "60"}, TypeError, r"max_delay.*number.*str"),
    (retrier, {"max_pending": None}, TypeError, r"max_pending.*integer.*NoneType"),
    (retrier, {"on_give_up": "log"}, TypeError, r"on_give_up.*callable.*'log'"),
    (retrier, {"random": 0.5}, TypeError, r"random.*callable.*0\.5"),
]


GOOD = [
    (single_flight, {"keep": 0, "max_kept": 1}),
    (single_flight, {"keep": MAX_TIMEOUT, "when_left": "finish"}),
    (periodic, {"period": 1e-6}),
    (periodic, {"period": MAX_TIMEOUT}),
    (heartbeat, {"interval": 3e-6}),
    (heartbeat, {"interval": 10, "idle_timeout": 20}),
    (heartbeat, {"interval": 10, "idle_timeout": MAX_TIMEOUT}),
    (heartbeat, {"interval": MAX_TIMEOUT / 3}),
    (retrier, {"delay": 1e-6, "attempts": 1, "backoff": 1, "jitter": 0, "max_pending": 1}),
    (retrier, {"delay": MAX_TIMEOUT / 4, "max_delay": MAX_TIMEOUT / 4, "jitter": 1}),
    (retrier, {"delay": 5, "max_delay": 5, "jitter": 1, "backoff": 1e9, "attempts": None}),
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


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_what_begins_at_once_is_refused_by_a_closed_timer(make):
    timer = Timer(clock=ManualClock())
    timer.close()
    with pytest.raises(PurgatoryClosed):
        make(None, timer=timer)


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_what_begins_at_once_is_refused_by_a_full_timer(make):
    timer = Timer(clock=ManualClock(), max_pending=1)
    timer.call_later(1, print)
    with pytest.raises(PurgatoryFull, match="max_pending is 1"):
        make(None, timer=timer)
    assert timer.pending == 1


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_starting_at_once_needs_a_loop_unless_its_clock_does_not(make):
    timer = Timer()
    with pytest.raises(PurgatoryError, match="running event loop"):
        make(None, timer=timer)
    assert timer.pending == 0
    make(None, timer=Timer(clock=ManualClock()))


def test_submitting_needs_a_loop_unless_the_clock_does_not():
    with pytest.raises(PurgatoryError, match="running event loop"):
        retrier(None, timer=Timer()).submit("key", attempt)


@pytest.mark.parametrize(("call", "settings"), GOOD, ids=case_id)
def test_the_bounds_themselves_will_do(call, settings, purgatory):
    assert call(purgatory, **settings) is not None


# The checks themselves.


@pytest.mark.parametrize("value", [0, 0.0, 2.5, 10, 10.0], ids=str)
def test_a_number_within_its_bounds_passes_the_bounds_included(value):
    check_number("delay", value, least=0, most=10)


@pytest.mark.parametrize("value", [Decimal(1), 1j, "1", None, [1]], ids=repr)
def test_what_is_no_number_is_refused_by_its_type(value):
    with pytest.raises(TypeError, match=f"^delay must be a number, got {type(value).__name__}$"):
        check_number("delay", value, least=0)


def test_bounds_are_printed_without_trailing_digits():
    with pytest.raises(ValueError, match=r"^delay must be from 0\.6 to 3155760000, got 0\.1$"):
        check_number("delay", 0.1, least=0.2 * 3)


def test_an_integer_is_held_to_both_of_its_bounds_or_to_none():
    check_integer("need", 3, least=3, most=3)
    check_integer("need", LONG_INTEGER)
    with pytest.raises(ValueError, match=r"^need must be at least 3, got 2$"):
        check_integer("need", 2, least=3, most=5)
    with pytest.raises(ValueError, match=r"^need must be at most 5, got 6$"):
        check_integer("need", 6, least=3, most=5)


@pytest.mark.parametrize("value", [True, 1.0, "1", None], ids=repr)
def test_what_is_no_integer_is_refused_by_its_type(value):
    with pytest.raises(TypeError, match=f"^need must be an integer, got {type(value).__name__}$"):
        check_integer("need", value)


def test_a_function_is_whatever_can_be_called():
    for function in (attempt, print, Timer, [].append):
        check_function("work", function)
    with pytest.raises(TypeError, match=r"^work must be callable, got \[\]$"):
        check_function("work", [])


@pytest.mark.parametrize("value", [ValueError, "broken", None], ids=repr)
def test_an_exception_is_an_instance_of_one(value):
    check_exception(KeyboardInterrupt())
    with pytest.raises(TypeError, match=r"^exception must be an exception instance, got "):
        check_exception(value)


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
