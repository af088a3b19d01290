"""What a `Timer` refuses: bad delays and callbacks, one too many, a wrong loop or none, any once it is closed."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Iterator
from importlib.util import find_spec
from inspect import isawaitable
from typing import Any

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.testing import ManualClock, VirtualTimeLoop, settle
from tests.conftest import new_uvloop
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import World

# One object: a delay that a timer remembers from the call before is checked no less.


each_loop = pytest.mark.parametrize(
    "make_loop",
    [
        asyncio.SelectorEventLoop,
        pytest.param(
            new_uvloop,
            marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
        ),
    ],
    ids=["asyncio", "uvloop"],
)

# One object: a delay that a timer remembers from the call before is checked no less.
FIFTY = 50.0

BAD_DELAYS = [
    pytest.param(math.nan, ValueError, "nan", id="nan"),
    pytest.param(-math.inf, ValueError, "-inf", id="minus infinity"),
    pytest.param(3_155_760_000.5, ValueError, "3155760000.5", id="a hundred years and a bit"),
    pytest.param(3_155_760_001, ValueError, "3155760001", id="a hundred years and a second"),
    pytest.param(1e308, ValueError, "1e.308", id="the longest float"),
    pytest.param(2**63, ValueError, r"9223372036854775808|9\.22", id="2**63"),
    pytest.param(10**400, ValueError, "an integer of 1329 bits", id="10**400"),
    pytest.param(None, TypeError, "NoneType", id="none"),
    pytest.param(True, TypeError, "bool", id="a bool"),
    pytest.param("1", TypeError, "str", id="a string"),
    pytest.param(b"1", TypeError, "bytes", id="bytes"),
    pytest.param(1j, TypeError, "complex", id="a complex number"),
    pytest.param([1], TypeError, "list", id="a list"),
]

Start = Callable[[Timer, Any], Any]
STARTS: dict[str, Start] = {
    "call_later": lambda timer, delay: timer.call_later(delay, int),
    "call_at": lambda timer, when: timer.call_at(when, int),
    "sleep": lambda timer, delay: timer.sleep(delay),
}
starts = pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)


def begin(start: Start, timer: Timer, delay: float) -> None:
    """Start it without a loop; a sleep is refused when it begins."""
    started = start(timer, delay)
    if isawaitable(started):
        started.__await__().__next__()


async def calling(function: Callable[[], object]) -> object:
    """What a function returns, or the awaitable that it returned."""
    returned = function()
    return await returned if isawaitable(returned) else returned


@starts
@pytest.mark.parametrize(("delay", "error", "named"), BAD_DELAYS)
@pytest.mark.asyncio
async def test_a_bad_delay_is_refused_with_its_bound(
    world: World, start: Start, delay: object, error: type[Exception], named: str
) -> None:
    timer, closed = world.timer(), world.timer()
    closed.close()
    for refusing in (timer, timer, closed):
        pending = refusing.pending
        with pytest.raises(error, match=named) as raised:
            await calling(lambda refusing=refusing: start(refusing, delay))
        assert "100 years" in str(raised.value) or error is TypeError
        assert refusing.pending == pending
        refusing.check_invariants()
        if refusing is timer and not pending:
            timer.call_later(1.0, int)


@pytest.mark.parametrize(("delay", "error", "named"), BAD_DELAYS)
@pytest.mark.parametrize("before", [0, 5, math.inf], ids=lambda delay: f"from {delay}")
@pytest.mark.asyncio
async def test_a_bad_delay_leaves_a_handle_as_it_was(
    world: World, before: float, delay: Any, error: type[Exception], named: str
) -> None:
    timer, calls = world.timer(), []
    handle = timer.call_later(before, calls.append, "called")
    when = handle.when
    with pytest.raises(error, match=named):
        handle.reschedule(delay)
    assert (handle.fired, handle.cancelled, handle.when, timer.pending) == (False, False, when, 1)
    await world.run(5)
    assert calls == ([] if before == math.inf else ["called"])


@starts
@pytest.mark.parametrize("delay", [0, 2.5, FIFTY, 9_000, math.inf], ids=str)
@pytest.mark.asyncio
async def test_a_closed_or_full_timer_refuses_and_names_why(world: World, start: Start, delay: float) -> None:
    closed, full = world.timer(), world.timer(max_pending=3)
    for timer in (closed, full):
        for _ in range(3):
            timer.call_later(FIFTY, int)
    closed.close()
    with pytest.raises(PurgatoryClosed, match=rf"closed.*{delay}"):
        await calling(lambda: start(closed, delay))
    with pytest.raises(PurgatoryFull, match="max_pending is 3"):
        await calling(lambda: start(full, delay))
    assert (closed.pending, full.pending) == (0, 3)
    full.check_invariants()


@pytest.mark.parametrize(
    "callback",
    [
        pytest.param(None, id="none"),
        pytest.param("print", id="a name"),
        pytest.param(asyncio.sleep, id="async"),
    ],
)
@pytest.mark.asyncio
async def test_what_cannot_be_called_is_refused_by_its_name(world: World, callback: object) -> None:
    timer = world.timer()
    with pytest.raises(TypeError, match=r"callback must be .*(None|print|sleep)"):
        timer.call_later(1, callback)
    assert timer.pending == 0


# Too many.


@pytest.mark.parametrize("how", ["cancelled", "fired", "zero fired", "never cancelled"])
@pytest.mark.asyncio
async def test_what_ends_makes_room(world: World, how: str) -> None:
    timer = world.timer(max_pending=1)
    delay = {"zero fired": 0, "never cancelled": math.inf}.get(how, 1)
    for _ in range(10):
        handle = timer.call_later(delay, int)
        if "cancelled" in how:
            handle.cancel()
        await world.run(1)
    assert timer.pending == 0


@pytest.mark.asyncio
async def test_a_callback_has_made_room_for_what_it_starts(world: World) -> None:
    timer, calls = world.timer(max_pending=1), []
    timer.call_later(1, lambda: timer.call_later(1, calls.append, "called"))
    await world.run(2)
    assert calls == ["called"]


@pytest.mark.asyncio
async def test_rescheduling_on_a_full_timer_needs_no_room(world: World) -> None:
    timer = world.timer(max_pending=1)
    handle = timer.call_later(1, int)
    assert [handle.reschedule(delay) for delay in (5, 0, math.inf, 2)] == [True] * 4
    assert timer.pending == 1


class Odd(DelayedOperation[None]):
    """Equals everything and cannot be hashed."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


@pytest.mark.parametrize("kind", [DelayedOperation, Odd])
@pytest.mark.parametrize("timeout", [0, -1, 0.5, 70.0, None, math.inf], ids=str)
@pytest.mark.parametrize("end", ["cancel", "force_complete", "close"])
@pytest.mark.asyncio
async def test_an_operation_that_ends_early_makes_room(
    world: World, kind: type[DelayedOperation[None]], timeout: float | None, end: str
) -> None:
    timer = world.timer(max_pending=1)
    for _ in range(3):
        purgatory, operation = Purgatory(timer=timer), kind(timeout)
        purgatory.try_complete_else_watch(operation, ["key"])
        assert timer.pending == (timeout not in (None, math.inf))
        (purgatory.close if end == "close" else getattr(operation, end))()
        assert timer.pending == 0
        timer.check_invariants()
    timer.call_later(1, int)
    await world.run(1)
    assert timer.pending == 0


class Ending(DelayedOperation[None]):
    """Ends others when it expires, and writes down what the timer counts then."""

    def __init__(self, timeout: float, timer: Timer, seen: list[int]) -> None:
        super().__init__(timeout)
        self.timer, self.seen, self.others = timer, seen, list[DelayedOperation[None]]()

    def on_expiration(self) -> None:
        self.seen.append(self.timer.pending)
        for other in self.others:
            other.cancel()
            self.seen.append(self.timer.pending)


@pytest.mark.parametrize("timeout", [0, 0.5, 70.0], ids=str)
@pytest.mark.asyncio
async def test_a_hook_that_ends_its_neighbours_makes_room(world: World, timeout: float) -> None:
    timer, seen = world.timer(max_pending=3), []
    with contextlib.closing(Purgatory(timer=timer)) as purgatory:
        first = Ending(timeout, timer, seen)
        first.others = [DelayedOperation(timeout) for _ in range(2)]
        for operation in (first, *first.others):
            purgatory.try_complete_else_watch(operation, ["key"])
        await world.run(timeout)
        assert seen == [2, 1, 0]
        timer.check_invariants()
        for _ in range(3):
            timer.call_later(1, int)


def test_an_interrupt_leaves_the_rest_counted() -> None:
    # As the interpreter does it at Ctrl-C: the exception leaves the pass, and the others come in the next one.
    clock, calls = ManualClock(), []
    timer = Timer(clock=clock, max_pending=3)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for callback in (interrupt, lambda: calls.append(timer.pending), lambda: calls.append(timer.pending)):
        timer.call_later(1, callback)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(1)
    timer.check_invariants()
    assert timer.pending == 2
    clock.advance(0)
    assert (calls, timer.pending) == ([1, 0], 0)


def test_what_an_interrupt_left_and_was_put_off_is_counted_once() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for callback in (interrupt, interrupt):
        timer.call_later(1, callback)
    put_off = timer.call_later(1, int)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(1)
    assert (put_off.reschedule(0), timer.pending) == (True, 2)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(0)
    assert timer.pending == 1
    assert timer.close() == [put_off]


@pytest.mark.asyncio
async def test_operations_that_equal_each_other_are_counted_each(world: World) -> None:
    timer = world.timer()
    with contextlib.closing(Purgatory(timer=timer)) as purgatory:
        for key in range(3):
            purgatory.try_complete_else_watch(Odd(0), [key])
        assert timer.pending == 3


@pytest.mark.parametrize("limit", [0, -1], ids=str)
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_pending must be at least 1.*{limit}"):
        Timer(max_pending=limit)


@pytest.mark.parametrize("limit", [True, 1.5, "10"], ids=repr)
def test_a_limit_that_is_no_integer_is_refused(limit: object) -> None:
    with pytest.raises(TypeError, match=f"max_pending must be .*{type(limit).__name__}"):
        Timer(max_pending=limit)


# The wrong loop, and none.


@contextlib.contextmanager
def loops(*makers: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[list[asyncio.AbstractEventLoop]]:
    made = [maker() for maker in makers]
    try:
        yield made
    finally:
        for loop in made:
            loop.close()


@each_loop
@pytest.mark.parametrize(
    "first_closed", [False, True], ids=["of two open loops", "after the first loop closed"]
)
@pytest.mark.parametrize(
    "make_timer", [Timer, lambda: Timer(clock=SteppedClock())], ids=["default", "own clock"]
)
def test_a_timer_belongs_to_the_loop_of_its_first_use(
    make_timer: Callable[[], Timer], first_closed: bool, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with loops(make_loop, make_loop) as (first, second):
        timer = make_timer()
        handles = first.run_until_complete(calling(lambda: [timer.call_later(FIFTY, int) for _ in range(3)]))
        if first_closed:
            first.close()
        uses: list[Coroutine[Any, Any, object]] = [
            *(
                calling(lambda delay=delay: timer.call_later(delay, int))
                for delay in (0, 5.0, 60.0, math.inf)
            ),
            calling(lambda: timer.call_at(timer.time() + 60.0, int)),
            calling(lambda: handles[0].reschedule(60.0)),
            timer.sleep(60.0),
        ]
        for use in uses:
            with pytest.raises(PurgatoryError, match="belongs to"):
                second.run_until_complete(use)
        assert (timer.pending, handles[0].cancelled) == (3, False)
        timer.close()


@pytest.mark.parametrize("delay", [0, 0.001, 5.0, 60.0, math.inf], ids=str)
@starts
def test_without_a_running_loop_a_timer_refuses_a_callback(start: Start, delay: float) -> None:
    timer = Timer()
    with pytest.raises(PurgatoryError, match="needs a running event loop"):
        begin(start, timer, delay)
    assert timer.pending == 0


@each_loop
@pytest.mark.parametrize("delay", [0, 0.001, 5.0, FIFTY, 60.0, math.inf], ids=str)
def test_a_timer_in_use_refuses_too_once_no_loop_is_running(
    delay: float, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with loops(make_loop) as (loop,):
        timer = Timer()
        loop.run_until_complete(calling(lambda: [timer.call_later(FIFTY, int) for _ in range(3)]))
        with pytest.raises(PurgatoryError, match="needs a running event loop"):
            timer.call_later(delay, int)
        assert timer.pending == 3
        timer.close()


def test_a_refusal_for_want_of_a_loop_does_not_decide_on_a_clock() -> None:
    timer = Timer()
    for start in (STARTS["call_later"], STARTS["call_at"]):
        with pytest.raises(PurgatoryError):
            start(timer, 1.0)
    with loops(VirtualTimeLoop) as (loop,):

        async def a_day_later() -> tuple[float, float]:
            timer.call_later(1.0, int)
            await asyncio.sleep(86_400)
            return timer.time(), loop.time()

        assert loop.run_until_complete(a_day_later()) == (86_400.0, 86_400.0)


@pytest.mark.asyncio
async def test_a_timer_made_without_a_loop_is_used_on_one() -> None:
    clock, calls = ManualClock(), []
    timer = Timer(clock=clock)
    timer.call_later(0, calls.append, "called")
    await settle()
    assert calls == ["called"]
