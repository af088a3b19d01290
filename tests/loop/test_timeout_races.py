"""`Timer.timeout` under cancellation at every point, and beside `asyncio.timeout` in any sequence of calls."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.testing import ManualClock, VirtualTimeLoop, assert_clean, cancel_sweep, settle
from tests.machines import explore


@pytest.mark.asyncio
@pytest.mark.parametrize(("inner", "outer"), [(5, 5), (1, 5), (5, 1), (1, 1)])
async def test_a_cancellation_at_any_point_leaves_nothing(inner: float, outer: float) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    purgatory = Purgatory(timer=timer)

    async def scenario() -> None:
        task = asyncio.current_task()
        before = task.cancelling()
        asyncio.get_running_loop().call_soon(clock.advance, 2)
        raised: type[BaseException] | None = None
        try:
            async with timer.timeout(outer), timer.timeout(inner) as scope:
                scope.reschedule(inner)
                await purgatory.wait("a", timeout=1.5)
        except TimeoutError as error:
            raised = type(error)
        finally:
            assert timer.pending == 0
            assert_clean(purgatory)
        assert raised is (TimeoutError if min(inner, outer) == 1 else OperationExpired)
        assert task.cancelling() == before

    assert await cancel_sweep(scenario) == 1


# Beside asyncio's.


class Side:
    """A task on a virtual loop that enters and leaves scopes of one kind, as it is asked."""

    def __init__(self, make: Callable[[], Callable[[float | None], Any]], *, absolute: bool) -> None:
        self.loop = VirtualTimeLoop()
        self.over = False
        self.absolute = absolute
        self.scopes: list[Any] = []
        self.trace: list[object] = []
        self.orders: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.timeout = make()
        self.task = self.loop.create_task(self._life())
        self.run(0)

    async def _life(self) -> None:
        while not self.over:
            await self._enclosed(0)

    async def _enclosed(self, depth: int) -> None:
        """Obey on this depth until it ends, and note how."""
        end: object = "over"
        try:
            await self._obey(depth)
        except (TimeoutError, LookupError) as error:
            end = type(error)
        except asyncio.CancelledError:
            end = "cancelled"
            if depth:
                raise
            while self.task.uncancel():
                pass
        finally:
            self.trace.append((depth, end, self.loop.time(), self.task.cancelling()))

    async def _obey(self, depth: int) -> None:
        while not self.over:
            order, detail = await self.orders.get()
            if order == "enter":
                async with self.timeout(detail) as scope:
                    self.scopes.append(scope)
                    await self._enclosed(depth + 1)
            elif order == "leave":
                return
            elif order == "raise":
                raise LookupError
            elif order == "swallow":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.trace.append("swallowed")
                    if sys.version_info < (3, 12):  # there a timeout may count what was under way before it
                        self.task.uncancel()

    def order(self, verb: str, detail: object = None) -> None:
        self.orders.put_nowait((verb, detail))
        self.run(0)

    def reschedule(self, number: int, delay: float | None) -> object:
        async def act() -> object:
            when = self.loop.time() + delay if self.absolute and delay is not None else delay
            try:
                return self.scopes[number % len(self.scopes)].reschedule(when)
            except RuntimeError:
                return RuntimeError

        result = self.loop.run_until_complete(act())
        self.run(0)
        return result

    def run(self, seconds: float) -> None:
        async def act() -> None:
            await asyncio.sleep(seconds)
            await settle()

        self.loop.run_until_complete(act())

    @property
    def state(self) -> object:
        scopes = [(scope.when(), scope.expired()) for scope in self.scopes]
        return self.trace, scopes, self.task.cancelling(), self.loop.time()


# Whole ticks, and exact as floats.
DELAYS = st.sampled_from([None, -1, 0, 0.5, 1, 2, 4])


class BesideAsyncio(RuleBasedStateMachine):
    """The same story with both kinds of scopes."""

    def __init__(self) -> None:
        super().__init__()
        self.timer = Timer()
        self.sides = (
            Side(lambda: self.timer.timeout, absolute=False),
            Side(lambda: asyncio.timeout, absolute=True),
        )

    def both(self, act: Callable[[Side], object]) -> None:
        ours, theirs = map(act, self.sides)
        assert ours == theirs

    @rule(delay=DELAYS)
    def enter(self, delay: float | None) -> None:
        self.both(lambda side: side.order("enter", delay))

    @rule(verb=st.sampled_from(["leave", "raise", "swallow"]))
    def order(self, verb: str) -> None:
        self.both(lambda side: side.order(verb))

    @precondition(lambda self: self.sides[0].scopes)
    @rule(number=st.integers(0, 5), delay=DELAYS)
    def reschedule(self, number: int, delay: float | None) -> None:
        self.both(lambda side: side.reschedule(-1 - number, delay))

    @rule(after=st.sampled_from([0, 0.5, 1]))
    def cancel(self, after: float) -> None:
        self.both(lambda side: side.loop.call_later(after, side.task.cancel) and None)
        self.both(lambda side: side.run(0))

    @rule(seconds=st.sampled_from([0.5, 1, 2]))
    def run(self, seconds: float) -> None:
        self.both(lambda side: side.run(seconds))

    @invariant()
    def they_agree(self) -> None:
        ours, theirs = self.sides
        assert ours.state == theirs.state
        self.timer.check_invariants()

    def teardown(self) -> None:
        for side in self.sides:
            side.over = True
            side.task.cancel()
            side.run(0)
            assert side.task.done()
            side.loop.close()
        assert self.timer.pending == 0


def test_it_does_what_asyncios_timeout_does() -> None:
    explore(BesideAsyncio, examples=25, steps=25)
