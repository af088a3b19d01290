"""Contestants whose requests are tasks that wait for a key or their timeout: the library, and what people use today."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import anyio

from bench.proposal.contestant import Contestant, Tally
from bench.proposal.point import Point
from purgatory_async import DelayedOperation, OperationExpired, Outcome, Purgatory

__all__ = ["WAITS", "waiting_contestant"]


class Waits(Contestant):
    """A task for each request, which waits for a key of its own.

    Args:
        point: What is run.
        tally: Counts.
    """

    name: ClassVar[str]

    def __init__(self, point: Point, tally: Tally) -> None:
        self._tally = tally
        self._timeout_s = point.timeout_ms / 1000
        self._timeout_ns = point.timeout_ms * 1_000_000
        self._payload = point.payload
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}  # the loop keeps only weak references
        self.answer = self.complete
        self.submit = self._begin

    @abstractmethod
    async def wait(self, key: int) -> bool:
        """Wait for a key; False if the time was up first."""

    @abstractmethod
    def complete(self, key: int) -> None:
        """Let the one who waits for a key go, if it still does."""

    def close(self) -> None:
        """Nothing is left when all tasks have ended."""

    def _begin(self, number: int) -> int:
        self._tally.submitted += 1
        self._tasks[number] = self._loop.create_task(self._request(number, bytes(self._payload)))
        return number

    async def _request(self, key: int, _: bytes) -> None:
        due_ns = time.monotonic_ns() + self._timeout_ns
        in_time = await self.wait(key)
        tally = self._tally
        tally.ended += 1
        if not in_time:
            tally.lateness_ns.append(time.monotonic_ns() - due_ns)
        del self._tasks[key]


class KeyedWaits(Waits):
    """`Purgatory.wait`."""

    name = "wait"

    def __init__(self, point: Point, tally: Tally) -> None:
        super().__init__(point, tally)
        self._purgatory = Purgatory("waits")
        self.answer = self._purgatory.complete_for_key

    async def wait(self, key: int) -> bool:
        """The usual way."""
        try:
            await self._purgatory.wait(key, timeout=self._timeout_s)
        except OperationExpired:
            return False
        return True

    def complete(self, key: int) -> None:
        """`Purgatory.complete_for_key`."""
        self._purgatory.complete_for_key(key)

    @property
    def entries(self) -> int:
        """Exact."""
        return self._purgatory.watched

    def close(self) -> None:
        """Close the purgatory."""
        self._purgatory.close()


class AwaitedOperations(KeyedWaits):
    """A delayed operation that is watched and awaited."""

    name = "operation"

    async def wait(self, key: int) -> bool:
        """The usual way with a custom condition."""
        operation = _Operation(self._timeout_s)
        self._purgatory.try_complete_else_watch(operation, (key,))
        return await operation is Outcome.COMPLETED


class _Operation(DelayedOperation[None]):
    __slots__ = ()


class _ByKey(Waits):
    """What waits, in a dict by key."""

    def __init__(self, point: Point, tally: Tally) -> None:
        super().__init__(point, tally)
        self._waiting: dict[int, Any] = {}

    @property
    def entries(self) -> int:
        """Of the dict."""
        return len(self._waiting)


class CallLaterFutures(_ByKey):
    """A future, and ``call_later`` by hand."""

    name = "call_later_future"

    async def wait(self, key: int) -> bool:
        """A future whose result says who was first."""
        future = self._waiting[key] = self._loop.create_future()
        handle = self._loop.call_later(self._timeout_s, _expire, future)
        try:
            return bool(await future)
        finally:
            handle.cancel()
            del self._waiting[key]

    def complete(self, key: int) -> None:
        """Set the result, unless the timer did."""
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(True)


class TimeoutFutures(CallLaterFutures):
    """A future under ``asyncio.timeout``."""

    name = "asyncio_timeout"

    async def wait(self, key: int) -> bool:
        """As the documentation of asyncio shows it."""
        future = self._waiting[key] = self._loop.create_future()
        try:
            async with asyncio.timeout(self._timeout_s):
                await future
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._waiting[key]


class WaitForEvents(_ByKey):
    """``asyncio.wait_for(event.wait(), timeout)``."""

    name = "wait_for_event"

    async def wait(self, key: int) -> bool:
        """As most people write it."""
        event = self._waiting[key] = asyncio.Event()
        try:
            await asyncio.wait_for(event.wait(), self._timeout_s)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._waiting[key]

    def complete(self, key: int) -> None:
        """Set the event."""
        event = self._waiting.get(key)
        if event is not None:
            event.set()


class Conditions(_ByKey):
    """A condition for each key, under ``asyncio.wait_for``."""

    name = "condition"

    def __init__(self, point: Point, tally: Tally) -> None:
        super().__init__(point, tally)
        self._notifying: set[asyncio.Task[None]] = set()

    async def wait(self, key: int) -> bool:
        """As one does who comes from threads."""
        condition = self._waiting[key] = asyncio.Condition()
        try:
            async with condition:
                await asyncio.wait_for(condition.wait(), self._timeout_s)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._waiting[key]

    def complete(self, key: int) -> None:
        """Notify; that takes the condition's lock, and so a task."""
        condition = self._waiting.get(key)
        if condition is not None:
            task = self._loop.create_task(_notify(condition))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)


class AnyioEvents(_ByKey):
    """``anyio.move_on_after`` around an event."""

    name = "anyio"

    async def wait(self, key: int) -> bool:
        """As its documentation shows it."""
        event = self._waiting[key] = anyio.Event()
        try:
            with anyio.move_on_after(self._timeout_s) as scope:
                await event.wait()
            return not scope.cancelled_caught
        finally:
            del self._waiting[key]

    def complete(self, key: int) -> None:
        """Set the event."""
        event = self._waiting.get(key)
        if event is not None:
            event.set()


def _expire(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(False)


async def _notify(condition: asyncio.Condition) -> None:
    async with condition:
        condition.notify_all()


WAITS: dict[str, Callable[[Point, Tally], Contestant]] = {
    kind.name: kind
    for kind in (
        KeyedWaits,
        AwaitedOperations,
        CallLaterFutures,
        TimeoutFutures,
        WaitForEvents,
        Conditions,
        AnyioEvents,
    )
}
"""By name."""


def waiting_contestant(point: Point, tally: Tally) -> Contestant:
    """Make the contestant of that name, on the running loop."""
    return WAITS[point.contestant](point, tally)
