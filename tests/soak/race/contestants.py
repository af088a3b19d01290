"""Ways to hand an item to one taker who does not wait for ever: the pattern, and what one writes without it.

Each is written with care: a taker seen to be cancelled gets nothing, and items without a taker are kept.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Protocol

from purgatory_async import Purgatory
from purgatory_async.patterns import HandOff

__all__ = [
    "CONTESTANTS",
    "Contestant",
    "FutureUnderTimeout",
    "HandOffUnderTimeout",
    "HandOffWithTimeout",
    "QueueInWait",
    "QueueUnderTimeout",
    "QueueUnderWaitFor",
]


class Contestant(Protocol):
    """Queues by key, whose items go each to one taker."""

    def put(self, key: int, item: object) -> object:
        """Give the item to who waits for it, or keep it."""

    async def take(self, key: int, timeout: float) -> object:
        """Wait for an item; `TimeoutError` after so many seconds."""

    def close(self) -> object:
        """No taker is left."""


class HandOffWithTimeout:
    """The pattern, with the timeout of its own."""

    def __init__(self) -> None:
        self.purgatory = Purgatory("race")
        self.hand_off: HandOff[int, object] = HandOff(self.purgatory)
        self.put = self.hand_off.put
        self.close = self.purgatory.close

    async def take(self, key: int, timeout: float) -> object:
        """Take from the one queue."""
        _, item = await self.hand_off.take(key, timeout=timeout)
        return item


class HandOffUnderTimeout(HandOffWithTimeout):
    """The pattern, in a block with a timeout of its own."""

    async def take(self, key: int, timeout: float) -> object:
        """Take from the one queue."""
        async with asyncio.timeout(timeout):
            _, item = await self.hand_off.take(key)
            return item


class QueueUnderTimeout:
    """A queue for each key; its get in a block that is limited."""

    def __init__(self) -> None:
        self.queues: defaultdict[int, asyncio.Queue[object]] = defaultdict(asyncio.Queue)

    def put(self, key: int, item: object) -> None:
        """There is always room."""
        self.queues[key].put_nowait(item)

    async def take(self, key: int, timeout: float) -> object:
        """Get from the one queue."""
        async with asyncio.timeout(timeout):
            return await self.queues[key].get()

    def close(self) -> None:
        """Nothing is open."""


class QueueUnderWaitFor(QueueUnderTimeout):
    """The same by the function that was there before the block."""

    async def take(self, key: int, timeout: float) -> object:
        """Get from the one queue."""
        return await asyncio.wait_for(self.queues[key].get(), timeout)


class QueueInWait(QueueUnderTimeout):
    """The same by a task of its own, as one gets from several queues at once."""

    async def take(self, key: int, timeout: float) -> object:
        """Get from the one queue."""
        get = asyncio.ensure_future(self.queues[key].get())
        try:
            done, _ = await asyncio.wait([get], timeout=timeout)
        finally:
            get.cancel()  # does nothing to one that is done
        if not done:
            raise TimeoutError(f"no item for {key} within {timeout} s")
        return get.result()


class FutureUnderTimeout:
    """A future in a table: what one writes to wake the one task that waits for an answer."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[object]] = {}
        self.kept: defaultdict[int, deque[object]] = defaultdict(deque)

    def put(self, key: int, item: object) -> None:
        """Set the future of who waits, or keep it."""
        future = self.waiting.pop(key, None)
        if future is None or future.done():
            self.kept[key].append(item)
        else:
            future.set_result(item)

    async def take(self, key: int, timeout: float) -> object:
        """What is kept, or what will be set."""
        if self.kept[key]:
            return self.kept[key].popleft()
        future = self.waiting[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            if self.waiting.get(key) is future:
                del self.waiting[key]

    def close(self) -> None:
        """Nothing is open."""


# By the words that they are printed with.
CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "HandOff.take(timeout=...)": HandOffWithTimeout,
    "HandOff.take() under asyncio.timeout": HandOffUnderTimeout,
    "asyncio.Queue.get() under wait_for": QueueUnderWaitFor,
    "asyncio.Queue.get() under asyncio.timeout": QueueUnderTimeout,
    "asyncio.Queue.get() in asyncio.wait": QueueInWait,
    "a future in a dict under asyncio.timeout": FutureUnderTimeout,
}
