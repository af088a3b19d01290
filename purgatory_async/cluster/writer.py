"""Append what a worker proposes: in order, in batches, each entry so that it takes effect at most once.

One batch is under way at a time. While its outcome is unknown it is appended again, as long as one of its callers
waits. Readers drop the repetitions by the writer's name and number (`repetitions`). A proposal is settled when the
worker reads it back, or applies it right after its append; `Writer.settle` is how the reader reports it.

Over a new connection an introduction comes first. It shows where two histories part, if the engine has lost entries
meanwhile that this worker had not read.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from purgatory_async import PurgatoryFull
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.log import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ENTRIES,
    Appended,
    Log,
    LogError,
    LogReconnected,
    LogUnavailable,
)
from purgatory_async.cluster.repetitions import Verdict

__all__ = ["Writer"]

MAX_WAITING: Final = 10_000  # entries
MAX_WAITING_BYTES: Final = 67_108_864  # 64 MiB
RENEWED_AFTER_S: Final = 300.0  # well before readers forget a silent writer

E = TypeVar("E")
R = TypeVar("R")


class _Proposal(Generic[E, R]):
    """An entry, those right before it, how much they weigh in the queue, and the future of what it gave."""

    __slots__ = ("before", "entry", "future", "size")

    def __init__(self, entry: E, size: int, before: Sequence[E], future: "asyncio.Future[R]") -> None:
        self.entry = entry
        self.size = size
        self.before = before
        self.future = future


class Writer(Generic[E, R]):
    """One run of one worker, which appends entries to a log.

    Args:
        log: An open log.
        encode: Makes the bytes of an entry, given the writer's name and the entry's number.
        introduction: The entry that introduces a writer; it is appended alone, as number 1.
        appended: Called with each batch that is in the log, before another one is sent, unless `lose` was called
            meanwhile.
        failed: Called with the error when the outcome of an append is unknown; it is then appended again.
    """

    def __init__(
        self,
        log: Log,
        *,
        encode: Callable[[E, str, int], bytes],
        introduction: E,
        appended: Callable[[Appended, Sequence[bytes]], object],
        failed: Callable[[LogUnavailable], object] = lambda _: None,
    ) -> None:
        self.name = secrets.token_hex(12)
        self._log = log
        self._encode = encode
        self._introduction = introduction
        self._appended = appended
        self._failed = failed
        self._number = 0  # the last one used; 0 before the introduction
        self._sent_at = 0.0
        self._sending = False
        self._queue: deque[_Proposal[E, R]] = deque()
        self._queued_bytes = 0
        self._unsettled: dict[int, _Proposal[E, R]] = {}
        self._proposed = asyncio.Event()
        self._failure: LogError | None = None
        self._reconnected = False  # since an introduction

    @property
    def idle(self) -> bool:
        """Whether nothing is proposed or under way."""
        return not self._queue and not self._sending

    @property
    def waiting(self) -> int:
        """How many proposals are not yet sent."""
        return len(self._queue)

    def propose(self, entry: E, size: int, before: Sequence[E] = ()) -> "asyncio.Future[R]":
        """Queue an entry of about ``size`` bytes; the future has what the reader reports. O(1).

        An entry whose future is cancelled before it is sent is not appended; afterwards it may be. Those in ``before``,
        fewer than a batch has, get the positions right before it, all or none; nothing is reported of them.

        Raises:
            PurgatoryFull: 10 000 entries or 64 MiB wait to be sent.
            LogError: The writer has failed.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self._drop_left()
        if len(self._queue) >= MAX_WAITING or self._queued_bytes + size > MAX_WAITING_BYTES:
            raise PurgatoryFull(
                f"at most {MAX_WAITING} entries or {MAX_WAITING_BYTES} bytes may wait for the log, got "
                f"{len(self._queue)} and {self._queued_bytes}",
                limit=MAX_WAITING,
            )
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        proposal = _Proposal(entry, size, before, future)  # `_Proposal[E, R]` would take longer than the rest
        self._queue.append(proposal)
        self._queued_bytes += size
        self._proposed.set()
        return future

    def unsettled(self, number: int) -> E | None:
        """Return the entry that was sent with a number and is not settled; None if there is none. O(1)."""
        proposal = self._unsettled.get(number)
        return None if proposal is None else proposal.entry

    def withdraw(self, proposed: "asyncio.Future[R]", error: Exception) -> None:
        """Fail a proposal that is not yet sent; one that is may be appended, so it is left alone. O(waiting)."""
        if not proposed.done() and any(each.future is proposed for each in self._queue):
            proposed.set_exception(error)

    def settle(self, number: int, verdict: Verdict, result: R) -> None:
        """Report what became of this writer's entry with a number. O(1); O(unsettled) if the writer is unknown."""
        if verdict is Verdict.UNKNOWN:
            self._renew()
        elif verdict is Verdict.NEW:
            proposal = self._unsettled.pop(number, None)
            if proposal is not None and not proposal.future.done():
                proposal.future.set_result(result)

    def lose(self, error: LogError) -> None:
        """Fail what was sent and is not settled, as its entries will not be read; then go on under another name."""
        unsettled, self._unsettled = self._unsettled, {}
        _fail(unsettled.values(), error)
        self._renew()

    def fail(self, error: LogError) -> None:
        """Fail every proposal, and those to come."""
        self._failure = error
        _fail([*self._unsettled.values(), *self._queue], error)
        self._unsettled.clear()
        self._queue.clear()
        self._queued_bytes = 0

    async def run(self) -> None:
        """Append what is proposed, until cancelled.

        Raises:
            LogError: The log fails for good; `fail` was called with it.
        """
        try:
            while True:
                await self._proposed.wait()
                self._proposed.clear()
                while self._queue:
                    await self._send_one()
        except LogError as error:
            self.fail(error)
            raise

    async def _send_one(self) -> None:
        """Send the introduction if it is due, otherwise the next batch."""
        self._drop_left()
        if not self._queue:
            return
        loop = asyncio.get_running_loop()
        if self._number and loop.time() - self._sent_at > RENEWED_AFTER_S and not self._unsettled:
            self._renew()
        if self._number:
            numbers, batch = self._next_batch()
        else:
            self._number, numbers = 1, []
            batch = [self._encode(self._introduction, self.name, 1)]
        name = self.name
        appended = await self._append(batch, name, numbers)
        if name != self.name:
            return  # the engine may have lost the batch since; what it still has is read
        if appended is not None:
            self._sent_at = loop.time()
            self._appended(appended, batch)
        else:
            # The batch may still come, or never; its numbers are used up. An unknown writer would be dropped later.
            for number in numbers:
                self._unsettled.pop(number, None)
            if not numbers:
                self._number = 0

    def _drop_left(self) -> None:
        """Drop the oldest proposals whose callers have left."""
        while self._queue and self._queue[0].future.done():
            self._queued_bytes -= self._queue.popleft().size

    def _next_batch(self) -> tuple[list[int], list[bytes]]:
        numbers, batch, total = list[int](), list[bytes](), 0
        while self._queue and len(batch) < MAX_BATCH_ENTRIES:
            proposal = self._queue[0]
            if not proposal.future.done():
                entries = (*proposal.before, proposal.entry)
                data = [
                    self._encode(entry, self.name, number)
                    for number, entry in enumerate(entries, self._number + 1)
                ]
                total += sum(map(len, data))
                if batch and (total > MAX_BATCH_BYTES or len(batch) + len(data) > MAX_BATCH_ENTRIES):
                    break
                self._number += len(data)
                self._unsettled[self._number] = proposal
                numbers.append(self._number)
                batch += data
            self._queue.popleft()
            self._queued_bytes -= proposal.size
        return numbers, batch

    async def _append(self, batch: Sequence[bytes], name: str, numbers: Sequence[int]) -> Appended | None:
        """Append until the outcome is known; None if no caller waits any more, or the name has changed."""
        backoff = Backoff()
        while name == self.name:
            self._sending = True
            try:
                if self._reconnected and numbers:
                    await self._introduce_another(name)
                    continue
                appended = await self._log.append(batch)
                self._reconnected = False
                return appended  # noqa: TRY300 - it is what the loop is for
            except LogReconnected:
                self._reconnected = True
                if not numbers:
                    self._renew()  # the one before may be in the log, or have been
                continue
            except LogUnavailable as error:
                self._failed(error)
                await asyncio.sleep(backoff.next_delay())
            finally:
                self._sending = False
            sent = [self._unsettled[number] for number in numbers if number in self._unsettled]
            waiting = sent if numbers else self._queue  # what is read back meanwhile is settled
            if all(proposal.future.done() for proposal in waiting):
                return None
        return None

    async def _introduce_another(self, name: str) -> None:
        """Append the introduction of a writer that appends nothing else, beside the one of this name."""
        batch = [self._encode(self._introduction, secrets.token_hex(12), 1)]
        appended = await self._log.append(batch)
        self._reconnected = False
        if name == self.name:
            self._appended(appended, batch)

    def _renew(self) -> None:
        """Become a new writer, which proposes again what is not settled."""
        self.name, self._number = secrets.token_hex(12), 0
        again = [proposal for proposal in self._unsettled.values() if not proposal.future.done()]
        self._unsettled.clear()
        self._queue.extendleft(reversed(again))
        self._queued_bytes += sum(proposal.size for proposal in again)
        self._proposed.set()


def _fail(proposals: "Iterable[_Proposal[E, R]]", error: LogError) -> None:
    for proposal in proposals:
        if not proposal.future.done():
            proposal.future.set_exception(error)
