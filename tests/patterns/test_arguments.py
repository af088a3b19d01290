"""Bad arguments: the message names what was wrong, the value and the bound, and nothing was registered."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from purgatory_async import PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import check_exception
from purgatory_async.patterns import Heartbeat, Periodic, Retrier
from purgatory_async.patterns._arguments import check_function, check_integer, check_number
from purgatory_async.testing import ManualClock

LONG_INTEGER = 10**400


def nothing() -> None:
    """A function for every purpose."""


async def attempt() -> None:
    """Something to attempt."""


def periodic(timer: Any, period: Any = 1.0, work: Any = nothing, **settings: Any) -> Periodic:
    return Periodic(timer, period, work, **settings)


def heartbeat(timer: Any, send: Any = nothing, on_dead: Any = nothing, **settings: Any) -> Heartbeat:
    return Heartbeat(timer, send=send, on_dead=on_dead, **settings)


def retrier(timer: Any, **settings: Any) -> Retrier[str]:
    return Retrier(timer, **settings)


Make = Callable[..., object]

OUT_OF_BOUNDS: list[tuple[Make, dict[str, Any], list[str]]] = [
    (periodic, {"period": 0}, ["period", "1e-06", "3155760000", "got 0"]),
    (periodic, {"period": -1.5}, ["period", "1e-06", "got -1.5"]),
    (periodic, {"period": 9e-7}, ["period", "1e-06", "got 9e-07"]),
    (periodic, {"period": 3_155_760_001}, ["period", "3155760000", "got 3155760001"]),
    (periodic, {"period": math.inf}, ["period", "3155760000", "got inf"]),
    (periodic, {"period": math.nan}, ["period", "1e-06", "got nan"]),
    (periodic, {"period": LONG_INTEGER}, ["period", "3155760000", "an integer of 1329 bits"]),
    (periodic, {"mode": "fixed"}, ["mode", "'fixed_delay'", "'fixed_rate'", "got 'fixed'"]),
    (periodic, {"mode": None}, ["mode", "'fixed_delay'", "got None"]),
    (periodic, {"missed": "drop"}, ["missed", "'skip'", "'burst'", "'delay'", "got 'drop'"]),
    (heartbeat, {"interval": 0}, ["interval", "3e-06", "got 0"]),
    (heartbeat, {"interval": 2e-6}, ["interval", "3e-06", "got 2e-06"]),
    (heartbeat, {"interval": math.nan}, ["interval", "3e-06", "got nan"]),
    (heartbeat, {"interval": math.inf}, ["interval", "3155760000", "got inf"]),
    (heartbeat, {"interval": 60, "idle_timeout": 119.9}, ["idle_timeout", "120", "got 119.9"]),
    (heartbeat, {"interval": 60, "idle_timeout": math.nan}, ["idle_timeout", "120", "got nan"]),
    (heartbeat, {"interval": 60, "idle_timeout": math.inf}, ["idle_timeout", "3155760000", "got inf"]),
    (heartbeat, {"interval": 60, "idle_timeout": -1}, ["idle_timeout", "120", "got -1"]),
    (heartbeat, {"idle_timeout": LONG_INTEGER}, ["idle_timeout", "3155760000", "an integer of 1329 bits"]),
    (retrier, {"delay": 0}, ["delay", "1e-06", "got 0"]),
    (retrier, {"delay": -5}, ["delay", "1e-06", "got -5"]),
    (retrier, {"delay": 788_940_001}, ["delay", "788940000", "got 788940001"]),
    (retrier, {"delay": math.inf}, ["delay", "788940000", "got inf"]),
    (retrier, {"delay": math.nan}, ["delay", "got nan"]),
    (retrier, {"attempts": 0}, ["attempts", "at least 1", "got 0"]),
    (retrier, {"attempts": -LONG_INTEGER}, ["attempts", "at least 1", "an integer of 1329 bits"]),
    (retrier, {"backoff": 0.99}, ["backoff", "from 1 ", "got 0.99"]),
    (retrier, {"backoff": math.inf}, ["backoff", "got inf"]),
    (retrier, {"jitter": -0.1}, ["jitter", "from 0 to 1", "got -0.1"]),
    (retrier, {"jitter": 1.1}, ["jitter", "from 0 to 1", "got 1.1"]),
    (retrier, {"jitter": math.nan}, ["jitter", "from 0 to 1", "got nan"]),
    (retrier, {"delay": 5, "max_delay": 4.9}, ["max_delay", "from 5 ", "got 4.9"]),
    (retrier, {"max_delay": math.inf}, ["max_delay", "788940000", "got inf"]),
    (retrier, {"max_pending": 0}, ["max_pending", "at least 1", "got 0"]),
]

WRONG_KINDS: list[tuple[Make, dict[str, Any], list[str]]] = [
    (periodic, {"period": "1"}, ["period", "number", "str"]),
    (periodic, {"period": None}, ["period", "number", "NoneType"]),
    (periodic, {"period": True}, ["period", "number", "bool"]),
    (periodic, {"work": None}, ["work", "callable", "None"]),
    (periodic, {"work": attempt.__name__}, ["work", "callable", "'attempt'"]),
    (heartbeat, {"interval": "60"}, ["interval", "number", "str"]),
    (heartbeat, {"idle_timeout": False}, ["idle_timeout", "number", "bool"]),
    (heartbeat, {"send": None}, ["send", "callable", "None"]),
    (heartbeat, {"on_dead": 3}, ["on_dead", "callable", "3"]),
    (retrier, {"delay": None}, ["delay", "number", "NoneType"]),
    (retrier, {"attempts": 1.0}, ["attempts", "integer", "float"]),
    (retrier, {"attempts": True}, ["attempts", "integer", "bool"]),
    (retrier, {"backoff": "2"}, ["backoff", "number", "str"]),
    (retrier, {"jitter": None}, ["jitter", "number", "NoneType"]),
    (retrier, {"max_delay": "60"}, ["max_delay", "number", "str"]),
    (retrier, {"max_pending": None}, ["max_pending", "integer", "NoneType"]),
    (retrier, {"on_give_up": "log"}, ["on_give_up", "callable", "'log'"]),
    (retrier, {"random": 0.5}, ["random", "callable", "0.5"]),
]


def case_id(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={shown(setting)}" for name, setting in value.items())
    return value.__name__ if callable(value) else ""


def shown(setting: object) -> str:
    return "10**400" if setting in (LONG_INTEGER, -LONG_INTEGER) else str(setting)


@pytest.mark.parametrize(("make", "settings", "words"), OUT_OF_BOUNDS, ids=case_id)
def test_a_value_out_of_bounds_is_refused_with_its_bound(
    make: Make, settings: dict[str, Any], words: list[str]
) -> None:
    timer = Timer(clock=ManualClock())
    with pytest.raises(ValueError, match="must be") as caught:
        make(timer, **settings)
    assert [word for word in words if word not in str(caught.value)] == []
    assert (timer.pending, timer.next_deadline) == (0, None)


@pytest.mark.parametrize(("make", "settings", "words"), WRONG_KINDS, ids=case_id)
def test_a_value_of_the_wrong_kind_is_refused_with_the_right_one(
    make: Make, settings: dict[str, Any], words: list[str]
) -> None:
    timer = Timer(clock=ManualClock())
    with pytest.raises(TypeError, match="must be") as caught:
        make(timer, **settings)
    assert [word for word in words if word not in str(caught.value)] == []
    assert (timer.pending, timer.next_deadline) == (0, None)


@pytest.mark.parametrize("make", [periodic, heartbeat, retrier], ids=case_id)
@pytest.mark.parametrize("timer", [None, 5.0, ManualClock(), Timer], ids=["None", "float", "clock", "class"])
def test_what_is_no_timer_is_named(make: Make, timer: object) -> None:
    with pytest.raises(TypeError, match="timer must be a Timer, got ") as caught:
        make(timer)
    assert repr(timer) in str(caught.value)


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_what_begins_at_once_is_refused_by_a_closed_timer(make: Make) -> None:
    timer = Timer(clock=ManualClock())
    timer.close()
    with pytest.raises(PurgatoryClosed):
        make(timer)


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_what_begins_at_once_is_refused_by_a_full_timer(make: Make) -> None:
    timer = Timer(clock=ManualClock(), max_pending=1)
    timer.call_later(1, nothing)
    with pytest.raises(PurgatoryFull, match="max_pending is 1"):
        make(timer)
    assert timer.pending == 1


@pytest.mark.parametrize("make", [periodic, heartbeat], ids=case_id)
def test_starting_at_once_needs_a_loop_unless_its_clock_does_not(make: Make) -> None:
    timer = Timer()
    with pytest.raises(PurgatoryError, match="running event loop"):
        make(timer)
    assert timer.pending == 0
    make(Timer(clock=ManualClock()))


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (periodic, {"period": 1e-6}),
        (periodic, {"period": MAX_TIMEOUT}),
        (heartbeat, {"interval": 3e-6}),
        (heartbeat, {"interval": 10, "idle_timeout": 20}),
        (heartbeat, {"interval": 10, "idle_timeout": MAX_TIMEOUT}),
        (heartbeat, {"interval": MAX_TIMEOUT / 3}),
        (retrier, {"delay": 1e-6, "attempts": 1, "backoff": 1, "jitter": 0, "max_pending": 1}),
        (retrier, {"delay": MAX_TIMEOUT / 4, "max_delay": MAX_TIMEOUT / 4, "jitter": 1}),
        (retrier, {"delay": 5, "max_delay": 5, "jitter": 1, "backoff": 1e9, "attempts": None}),
    ],
    ids=case_id,
)
def test_the_bounds_themselves_will_do(make: Make, settings: dict[str, Any]) -> None:
    assert make(Timer(clock=ManualClock()), **settings) is not None


@pytest.mark.parametrize("key", [[], {}, set()], ids=["list", "dict", "set"])
def test_an_unhashable_key_is_refused_and_registers_nothing(key: Any) -> None:
    timer = Timer(clock=ManualClock())
    queue = retrier(timer)
    with pytest.raises(TypeError, match="unhashable"):
        queue.submit(key, attempt)
    assert (timer.pending, queue.pending) == (0, 0)


def test_an_uncallable_attempt_is_refused_and_registers_nothing() -> None:
    timer = Timer(clock=ManualClock())
    queue = retrier(timer)
    with pytest.raises(TypeError, match="attempt must be callable, got None"):
        queue.submit("key", None)
    assert (timer.pending, queue.pending) == (0, 0)


# The checks themselves.


@pytest.mark.parametrize("value", [0, 0.0, 2.5, 10, 10.0], ids=str)
def test_a_number_within_its_bounds_passes_the_bounds_included(value: float) -> None:
    check_number("delay", value, least=0, most=10)


@pytest.mark.parametrize("value", [Decimal(1), 1j, "1", None, [1]], ids=repr)
def test_what_is_no_number_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match=f"^delay must be a number, got {type(value).__name__}$"):
        check_number("delay", value, least=0)


def test_bounds_are_printed_without_trailing_digits() -> None:
    with pytest.raises(ValueError, match=r"^delay must be from 0\.6 to 3155760000, got 0\.1$"):
        check_number("delay", 0.1, least=0.2 * 3)


def test_an_integer_is_held_to_both_of_its_bounds_or_to_none() -> None:
    check_integer("need", 3, least=3, most=3)
    check_integer("need", LONG_INTEGER)
    with pytest.raises(ValueError, match=r"^need must be at least 3, got 2$"):
        check_integer("need", 2, least=3, most=5)
    with pytest.raises(ValueError, match=r"^need must be at most 5, got 6$"):
        check_integer("need", 6, least=3, most=5)


@pytest.mark.parametrize("value", [True, 1.0, "1", None], ids=repr)
def test_what_is_no_integer_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match=f"^need must be an integer, got {type(value).__name__}$"):
        check_integer("need", value)


def test_a_function_is_whatever_can_be_called() -> None:
    for function in (nothing, attempt, print, Timer, [].append):
        check_function("work", function)
    with pytest.raises(TypeError, match=r"^work must be callable, got \[\]$"):
        check_function("work", [])


@pytest.mark.parametrize("value", [ValueError, "broken", None], ids=repr)
def test_an_exception_is_an_instance_of_one(value: Any) -> None:
    check_exception(KeyboardInterrupt())
    with pytest.raises(TypeError, match=r"^exception must be an exception instance, got "):
        check_exception(value)
