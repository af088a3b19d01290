"""An async function where a plain one is meant is refused if it can be seen; else its coroutine is closed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial, wraps
from typing import Any
from unittest.mock import AsyncMock

import pytest

from purgatory_async import DelayedOperation, OperationExpired, Outcome, Purgatory, Timer
from purgatory_async.errors import is_async
from purgatory_async.events import Observers
from purgatory_async.patterns import HandOff
from purgatory_async.testing import ManualClock, settle

pytestmark = pytest.mark.filterwarnings("error")

PLAIN = "must be a plain function, not async"


async def work(*_: object) -> bool:
    return False


async def stream(*_: object) -> AsyncIterator[int]:
    yield 1


class Working:
    async def __call__(self, *_: object) -> None:
        """Be an object with an async call."""

    async def method(self, *_: object) -> None:
        """Be an async method."""


@wraps(print)
def wrapped(*_: object) -> object:
    return work()


SEEN: dict[str, Callable[..., object]] = {
    "function": work,
    "partial": partial(work, 1),
    "partial of a partial": partial(partial(work)),
    "method": Working().method,
    "partial of a method": partial(Working().method),
    "object": Working(),
    "partial of an object": partial(Working(), 1),
    "async generator": stream,
    "mock": AsyncMock(),
}
UNSEEN: dict[str, Callable[..., object]] = {
    "lambda": lambda *_: work(),
    "wrapper": wrapped,
    "partial of a lambda": partial(lambda *_: work()),
    "lambda of an async generator": lambda *_: stream(),
    "a wait": lambda *_: Purgatory().wait("key"),
}

seen = pytest.mark.parametrize("function", SEEN.values(), ids=SEEN)
unseen = pytest.mark.parametrize("function", UNSEEN.values(), ids=UNSEEN)


@seen
def test_an_async_callable_is_seen_in_any_dress(function: Callable[..., object]) -> None:
    assert is_async(function)


def test_a_plain_callable_is_not_taken_for_an_async_one() -> None:
    for function in (*UNSEEN.values(), print, int, Working, partial(int), [].append, Purgatory().close):
        assert not is_async(function)


@seen
@pytest.mark.asyncio
async def test_one_that_can_be_seen_is_refused_at_once(function: Callable[..., object]) -> None:
    timer = Timer()
    async with Purgatory() as purgatory:
        portal = purgatory.portal()
        for refused in (timer.call_later, timer.call_at):
            with pytest.raises(TypeError, match=PLAIN):
                refused(1, function)
        with pytest.raises(TypeError, match=PLAIN):
            portal.call(function)
        if function is stream:  # a wait awaits an async function
            with pytest.raises(TypeError, match=PLAIN):
                await purgatory.wait("key", until=function)
        assert (timer.pending, purgatory.pending) == (0, 0)
    for hook in ("try_complete", "on_complete", "on_expiration"):
        with pytest.raises(TypeError, match=PLAIN):
            type("Operation", (DelayedOperation,), {hook: function})
        mixin = type("Mixin", (), {hook: function})
        with pytest.raises(TypeError, match=PLAIN):
            type("Operation", (mixin, DelayedOperation), {})
    observer = type("Observer", (), {"notify": staticmethod(function)})()
    for watch in (Observers, lambda one: Purgatory(observer=one)):
        with pytest.raises(TypeError, match=PLAIN):
            watch(observer)


@pytest.fixture
def reported() -> Any:
    """What goes to the loop's exception handler; an asyncio test only."""
    reports: list[dict[str, Any]] = []

    def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        reports.append(context)

    return reports, note


@unseen
@pytest.mark.asyncio
async def test_what_an_unseen_one_returns_is_closed_and_reported(
    function: Callable[..., object], reported: Any
) -> None:
    reports, note = reported
    asyncio.get_running_loop().set_exception_handler(note)
    clock = ManualClock()
    timer = Timer(clock=clock)
    timer.call_later(1, function)
    clock.advance(1)
    purgatory: Purgatory = Purgatory(timer=timer)
    hooks = {"on_complete": function, "on_expiration": function}
    operation = type("Operation", (DelayedOperation,), {n: staticmethod(f) for n, f in hooks.items()})(1)
    purgatory.try_complete_else_watch(operation, ["key"])
    clock.advance(1)
    watched: Purgatory = Purgatory(observer=type("Observer", (), {"notify": staticmethod(function)})())
    watched.complete_for_key("key")
    assert [PLAIN in str(report["exception"]) for report in reports] == [True] * 4
    assert operation.outcome is Outcome.EXPIRED


@unseen
@pytest.mark.asyncio
async def test_a_condition_that_returns_an_awaitable_fails_its_wait(function: Callable[..., object]) -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(TypeError, match=PLAIN):
            await purgatory.wait("key", until=function, timeout=1)
        with pytest.raises(TypeError, match=PLAIN):
            purgatory.try_complete_else_watch(Checked(function), ["key"])
        late = Checked(bool)
        purgatory.try_complete_else_watch(late, ["key"])
        late.check = function
        assert purgatory.check_and_complete("key") == 0
        assert isinstance(late.exception, TypeError)
        future = purgatory.portal().call(function)
        with pytest.raises(TypeError, match=PLAIN):
            await asyncio.wrap_future(future)
        assert purgatory.pending == 0


class Checked(DelayedOperation[None]):
    """Asks a function."""

    def __init__(self, check: Callable[[], object]) -> None:
        super().__init__()
        self.check = check

    def try_complete(self) -> Any:
        return self.check()


@pytest.mark.asyncio
async def test_a_callback_may_return_what_runs_by_itself(reported: Any) -> None:
    reports, note = reported
    asyncio.get_running_loop().set_exception_handler(note)
    timer = Timer()
    tasks = []
    timer.call_later(0, lambda: tasks.append(asyncio.ensure_future(work())) or tasks[0])
    await settle()
    assert (await asyncio.gather(*tasks), reports) == ([False], [])


@pytest.mark.asyncio
async def test_a_future_is_no_condition() -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(TypeError, match=PLAIN):
            await purgatory.wait("key", until=asyncio.get_running_loop().create_future)


TIMEOUTS_BY_PLACE = [("order:42", 5), (b"key", 2.5), (("orders", 42), 5), ("a", "b", 5), ("a", 5, 6)]


@pytest.mark.parametrize("keys", TIMEOUTS_BY_PLACE, ids=str)
@pytest.mark.asyncio
async def test_a_number_behind_a_text_key_is_not_taken_for_a_key(keys: tuple[Any, ...]) -> None:
    async with Purgatory() as purgatory:
        for wait in (purgatory.wait, partial(purgatory.wait, until=bool), HandOff(purgatory).take):
            with pytest.raises(TypeError, match=rf"write timeout={keys[-1]}, "):
                await wait(*keys)
            with pytest.raises(OperationExpired):
                await wait(*keys, timeout=0)
        assert purgatory.pending == 0


@pytest.mark.parametrize("keys", [(1, 2), (5, "a"), ("a", True), ("a", None), ("a", Outcome.CLOSED)], ids=str)
@pytest.mark.asyncio
async def test_other_keys_may_stand_in_any_order(keys: tuple[Any, ...]) -> None:
    async with Purgatory() as purgatory:
        waiting = asyncio.ensure_future(purgatory.wait(*keys))
        await settle()
        assert purgatory.complete_for_key(keys[-1], "done") == 1
        assert await waiting == "done"
