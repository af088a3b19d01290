"""The dispatcher at its edges: a loop that has closed or gone, and a future that raises."""

import asyncio
import gc
from typing import Any, cast

import pytest

from purgatory_async.loop.wakeups import SLICE, Dispatcher, dispatcher_of
from purgatory_async.testing import settle
from tests.conftest import default_loops
from tests.loop.worlds import reports

LOOPS = pytest.mark.parametrize("make_loop", default_loops().values(), ids=default_loops())
# The first of a turn are woken at once, the others in slices.
PLACES = pytest.mark.parametrize("before", [0, SLICE], ids=["at once", "in a slice"])

Waiter = asyncio.Future[None]


def waiter_of(loop: asyncio.AbstractEventLoop) -> Waiter:
    """A future that something waits for: its loop is called when it is set."""
    waiter = loop.create_future()
    waiter.add_done_callback(id)
    return waiter


class RaisingWaiter:
    """A future whose own machinery fails, on a loop that is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.get_loop = lambda: loop

    def done(self) -> bool:
        return False

    def set_result(self, result: None) -> None:
        raise RuntimeError("planned")


@LOOPS
def test_a_closed_loop_is_not_called(make_loop: Any) -> None:
    loop = make_loop()
    dispatcher = dispatcher_of(loop)
    loop.close()
    dispatcher.soon(pytest.fail)
    assert not dispatcher.busy


def test_a_loop_that_is_gone_is_not_called() -> None:
    loop = asyncio.SelectorEventLoop()
    dispatcher = Dispatcher(loop)
    loop.close()
    del loop
    gc.collect()
    dispatcher.soon(pytest.fail)
    assert not dispatcher.busy


@LOOPS
@PLACES
@pytest.mark.asyncio
async def test_waiters_of_a_closed_loop_hold_up_no_others(make_loop: Any, before: int) -> None:
    closed, running = make_loop(), asyncio.get_running_loop()
    ready = [running.create_future() for _ in range(before)]
    stranded = [waiter_of(closed) for _ in range(3)]
    behind = [running.create_future() for _ in range(3)]
    closed.close()
    contexts = reports()
    dispatcher_of(running).wake(dict.fromkeys([*ready, *stranded, *behind]))
    await settle()
    assert all(waiter.done() for waiter in [*ready, *behind])
    assert contexts == []


@PLACES
@pytest.mark.asyncio
async def test_another_error_of_a_waiter_comes_out(before: int) -> None:
    running, contexts = asyncio.get_running_loop(), reports()
    dispatcher = Dispatcher(running)
    dispatcher.wake(dict.fromkeys(running.create_future() for _ in range(before)))
    raising = cast("Waiter", RaisingWaiter(running))
    if not before:
        with pytest.raises(RuntimeError, match="planned"):
            dispatcher.wake(raising)
    else:
        dispatcher.wake(raising)
        await settle()
        assert [str(context["exception"]) for context in contexts] == ["planned"]
    assert not dispatcher.busy


@pytest.mark.asyncio
async def test_a_turn_later_the_next_are_woken_at_once_again() -> None:
    running = asyncio.get_running_loop()
    dispatcher = dispatcher_of(running)
    for _ in range(2):
        waiters = [running.create_future() for _ in range(2 * SLICE + 1)]
        dispatcher.wake(dict.fromkeys(waiters))
        assert [waiter.done() for waiter in waiters] == [True] * SLICE + [False] * (SLICE + 1)
        assert dispatcher.busy
        await settle()
        assert all(waiter.done() for waiter in waiters)
        assert not dispatcher.busy
