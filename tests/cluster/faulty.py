"""A log whose connections break: it wraps a `MemoryLog`, delays, cuts, and loses requests or answers.

Its delays are for the `VirtualTimeLoop`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from purgatory_async.cluster import Appended, Checkpoint, Entry, Head, LogUnavailable, MemoryLog
from purgatory_async.cluster.connection import SharedTrip

REQUEST, ANSWER = "request", "answer"


class FaultyLog:
    """A `Log` on ``inner``.

    Attributes:
        losses: What the next appends lose, in order: their `REQUEST`, so that nothing happens, or their `ANSWER`.
        late_s: How long requests and answers take.
        answer_s: How much longer the answers to appends take.
        deaf_s: How long an entry takes to reach a follower.
        away: While true, no call reaches the engine.
        refusal: What the engine answers to appends; None for nothing but the entries' place.
        appended: The batches that the engine got.
    """

    def __init__(self, inner: MemoryLog) -> None:
        self.inner = inner
        self.losses: deque[str] = deque()
        self.late_s = self.answer_s = 0.0
        self.deaf_s = 0.0
        self.away = False
        self.refusal: LogUnavailable | None = None
        self.appended = 0
        self._trip = SharedTrip(self._end)
        self._cuts = 0
        self._cut = asyncio.Event()
        self._loses_answer = False

    def cut(self) -> None:
        """Break the connections: calls under way lose their request and their answer in turn."""
        self._cuts += 1
        cut, self._cut = self._cut, asyncio.Event()
        cut.set()

    async def open(self) -> Head:
        """As the inner log."""
        return await self.inner.open()

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """As the inner log, unless the request or the answer is lost."""
        loss = self.losses.popleft() if self.losses else None
        cuts = self._cuts
        await asyncio.sleep(self.late_s)
        if self._cuts != cuts:
            self._loses_answer = not self._loses_answer
            loss = ANSWER if self._loses_answer else REQUEST
        if self.away or loss == REQUEST:
            raise LogUnavailable(f"connection was cut: the batch of {len(entries)} did not arrive")
        if self.refusal is not None:
            raise self.refusal
        appended = await self.inner.append(entries)
        self.appended += 1
        await asyncio.sleep(self.late_s + self.answer_s)
        if loss == ANSWER:
            raise LogUnavailable(f"connection was cut: the batch at {appended.first} has no answer")
        return appended

    async def follow(self, after: int) -> AsyncIterator[Sequence[Entry]]:
        """As the inner log; after a cut it starts again from its position."""
        while True:
            cut = asyncio.create_task(self._cut.wait())
            stream = self.inner.follow(after)
            try:
                while not cut.done():
                    read = asyncio.ensure_future(anext(stream, None))
                    await asyncio.wait([read, cut], return_when=asyncio.FIRST_COMPLETED)
                    if not read.done():
                        read.cancel()
                        await asyncio.wait([read])
                        break
                    entries = read.result()
                    if entries is None:
                        return
                    while self.away or self.deaf_s:
                        await asyncio.sleep(self.deaf_s or 0.01)
                        if not self.away:
                            break
                    after = entries[-1].position
                    yield entries
            finally:
                cut.cancel()
                await stream.aclose()

    async def end(self) -> int:
        """As the inner log, while it is there."""
        return await self._trip()

    def end_now(self) -> int | None:
        """Unknown, as by a server."""
        return None

    async def _end(self) -> int:
        await asyncio.sleep(self.late_s)
        if self.away:
            raise LogUnavailable("connection refused: the engine is away")
        return await self.inner.end()

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """As the inner log."""
        await self.inner.save(position, parts, keep)

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """As the inner log."""
        return await self.inner.load(below=below)

    async def aclose(self) -> None:
        """As the inner log."""
        await self.inner.aclose()
