"""Signals for the purgatories of several workers, over one log."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

from purgatory_async import OperationExpired, Purgatory, PurgatoryError, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.cluster.applier import Applier, Hearer
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.contact import Contact
from purgatory_async.cluster.entries import Signalled, WireEntry, decode, encode, signal, size_of
from purgatory_async.cluster.log import Appended, Entry, Head, Log, LogError, LogGap, LogUnavailable
from purgatory_async.cluster.repetitions import Verdict
from purgatory_async.cluster.replica import Replica
from purgatory_async.cluster.retention import Retention
from purgatory_async.cluster.writer import Writer
from purgatory_async.patterns._arguments import check_function

__all__ = ["Cluster"]

ASK_S: Final = 1.0  # how often the log is asked for its end

T = TypeVar("T")


class Cluster:
    """Signals on the keys of a purgatory that reach the same purgatory of every worker on the log.

    Use it as an async context manager. It opens the log, starts at its end, and closes it; the purgatory stays open.
    Every worker applies every signal in the order of the log, its own included: first ``apply``, so that conditions see
    what the signal brought, then ``purgatory.check_and_complete(key)``.

    An operation that is watched before a signal is appended is checked for it. If its condition is in a database, write
    to the database, then signal: `Purgatory.try_complete_else_watch` looks at it once more after it watches.

    Args:
        purgatory: The purgatory to check; the attribute `purgatory` has it.
        log: A log that is not yet open.
        apply: A plain or async function, called with each signal in the order of the log. An async one is awaited
            before the key is checked and the next signal applied, so it must not await this cluster; leaving the
            cluster waits for it. Its errors go to the loop's exception handler, and the signal counts as applied.
        on_gap: Called, and awaited if it is async, when the log no longer has entries that this worker has not applied;
            load again what signals would have brought. Then every pending operation is checked on all its keys.

    Raises:
        TypeError: ``apply`` or ``on_gap`` is not callable, or an async generator.

    >>> from purgatory_async.cluster import MemoryLog, MemoryStore
    >>> async def main():
    ...     store, paid = MemoryStore(), set()
    ...     async with (
    ...         Purgatory() as here,
    ...         Purgatory() as there,
    ...         Cluster(here, MemoryLog(store)) as one,
    ...         Cluster(there, MemoryLog(store), apply=lambda signalled: paid.add(signalled.key)),
    ...     ):
    ...         waiting = asyncio.ensure_future(there.wait("order-42", until=lambda: "order-42" in paid))
    ...         await asyncio.sleep(0)
    ...         await one.signal("order-42")
    ...         return await waiting
    >>> asyncio.run(main())
    True
    """

    def __init__(
        self,
        purgatory: Purgatory,
        log: Log,
        *,
        apply: Callable[[Signalled], object] | None = None,
        on_gap: Callable[[LogGap], object] | None = None,
    ) -> None:
        for name, callback in (("apply", apply), ("on_gap", on_gap)):
            if callback is not None:
                check_function(name, callback)
        self.purgatory = purgatory
        self._log = log
        self._apply = apply
        self._on_gap = on_gap
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: LogError | PurgatoryError = PurgatoryError("cluster is not open: cannot use it")
        self._open = False
        unopened = Head("", 0, 0, 1, 0)  # until the log is open
        self._replica = Replica(log, unopened, self._take)
        self._applier = self._applier_from(unopened)
        self._contact = Contact(0, lambda: 0.0)

    def __repr__(self) -> str:
        state = f"at {self.position}" if self._open else "not open"
        return f"<Cluster of {self.purgatory.name!r} {state}>"

    async def __aenter__(self) -> Self:
        """Open the log; raises what `Log.open` does."""
        head = await self._log.open()
        loop = asyncio.get_running_loop()
        self._applier = self._applier_from(head)
        self._replica = Replica(self._log, head, self._take, self._applier.order.rest)
        self._writer = Writer[WireEntry, int](
            self._log, encode=encode, introduction=WireEntry(k="alive"), appended=self._appended
        )
        self._retention = Retention(self._log, head, kind_of=lambda entry: decode(entry).k)
        self._contact = Contact(head.position, loop.time)
        self._open = True
        for work in (self._read(), self._writer.run(), self._ask(), self._retention.run()):
            task = loop.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the log; signals and waits under way raise `LogError`. An async ``apply`` under way is awaited."""
        self._stop(LogError("cluster is closed: cannot use it"))
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._applier.order.finished()
        finally:
            await self._log.aclose()

    @property
    def position(self) -> int:
        """The newest position that this worker has applied."""
        return self._applier.reached.value

    @property
    def epoch(self) -> str:
        """The log's epoch; positions of another epoch mean something else."""
        return self._replica.epoch

    @property
    def connected(self) -> bool:
        """Whether the engine was heard within the last 5 s."""
        return self._open and self._contact.connected

    @property
    def lag(self) -> float:
        """Seconds since this worker had applied all that it knew of; 0.0 if it has, and is connected."""
        return self._contact.lag(applied=self.position)

    async def signal(
        self,
        key: str,
        value: object = None,
        *,
        amount: int = 1,
        voter: str | None = None,
        timeout: float | None = 5.0,
    ) -> int:
        """Append a signal, and return its position once this worker has applied it.

        Args:
            key: Text of 1 to 512 bytes, without control characters.
            value: Anything that msgspec writes as JSON, at most 1 MiB.
            amount: A positive integer, for conditions that count.
            voter: Text, for conditions that count voters.
            timeout: Seconds, on the purgatory's clock.

        Raises:
            TypeError, ValueError: An argument is invalid.
            LogUnavailable: The timeout has passed, or there was a gap; the signal may still happen.
            PurgatoryFull: 10 000 signals or 64 MiB wait for the engine.
            LogError: The cluster is closed, or the log has failed for good.

        Cancelling the caller has the same effect as the timeout.
        """
        self._require_open()
        timeout = check_timeout(timeout)
        entry = signal(key, value, amount, voter)
        try:
            return await _within(self.purgatory.timer, timeout, self._writer.propose(entry, size_of(entry)))
        except TimeoutError:
            late = f"the signal on {key!r} was not applied within {timeout} s; it may still happen"
            raise LogUnavailable(late) from None

    def add_hearer(self, hearer: Hearer) -> None:
        """Let an object hear what is applied from now on, while it is referenced; raises `LogError` if closed."""
        self._require_open()
        self._applier.hearers.add(hearer)

    async def caught_up(self, position: int | None = None, timeout: float | None = None) -> int:
        """Wait until this worker has applied a position, by default the log's end now; return the position applied.

        Raises:
            OperationExpired: It did not within ``timeout`` seconds of the purgatory's clock.
            LogUnavailable: The engine cannot be asked for its end, or there was a gap.
            LogError: The cluster is closed, or the log has failed for good.
        """
        self._require_open()
        timeout = check_timeout(timeout)
        timer, left = self.purgatory.timer, timeout
        if position is None:
            begun = timer.time()
            try:
                position = await _within(timer, timeout, asyncio.ensure_future(self._log.end()))
            except TimeoutError:
                late = f"the log's end did not come within {timeout} s; the cluster is at {self.position}"
                raise OperationExpired(late, timeout=timeout) from None
            self._hear(position)
            left = None if timeout is None else max(0.0, timeout - (timer.time() - begun))
        return await self._applier.reached.reach(position, left)

    # Applying.

    def _applier_from(self, head: Head) -> Applier:
        return Applier(
            self.purgatory, head, apply=self._apply, settled=self._settled, ended=self._ended, owner=self
        )

    def _appended(self, appended: Appended, batch: Sequence[bytes]) -> None:
        self._hear(appended.first + len(batch) - 1)
        self._replica.appended(appended, batch)

    def _take(self, entry: Entry) -> None:
        wire = decode(entry)
        self._retention.note(entry, wire.k)
        self._applier.take(entry, wire)

    def _settled(self, position: int, wire: WireEntry, verdict: Verdict) -> None:
        if wire.w == self._writer.name:
            self._writer.settle(wire.n, verdict, position)
        self._hear(position)

    def _hear(self, position: int) -> None:
        self._contact.hear(position, applied=self.position)

    # Tasks.

    async def _read(self) -> None:
        while True:
            try:
                await self._replica.run()
            except LogGap as gap:
                await self._bridge(gap)
            else:
                return  # the log is closed

    async def _bridge(self, gap: LogGap) -> None:
        """Continue after a gap: at the oldest entry, or at the end if the engine has lost entries."""
        await self._applier.order.finished()
        lost = LogUnavailable(f"the log has a gap before position {gap.oldest}: the outcome is unknown")
        goes_back = gap.epoch != self.epoch or gap.oldest <= self.position
        position = await _end_of(self._log, self._contact) if goes_back else gap.oldest - 1
        self._applier.skip(position, lost, goes_back=goes_back)
        self._replica.restart(position, gap.epoch)
        self._retention.restart(gap.oldest, position)
        self._contact.known = position
        self._writer.lose(lost)
        if self._on_gap is not None and (waiting := self._applier.call(self._on_gap, gap)) is not None:
            await waiting
        await self._applier.check_all()

    async def _ask(self) -> None:
        """Ask for the log's end, so that `connected` and `lag` are true while it is quiet."""
        while True:
            self._hear(await _end_of(self._log, self._contact))
            await asyncio.sleep(ASK_S)

    # Ending.

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self._open:
            message = f"{self!r} stops applying signals"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
            self._stop(error if isinstance(error, LogError) else LogError(f"cluster has failed: {error!r}"))

    def _stop(self, reason: LogError) -> None:
        if self._open:
            self._open, self._failure = False, reason
            self._applier.close(reason)
            for task in self._tasks:
                task.cancel()
            self._writer.fail(reason)

    def _require_open(self) -> None:
        if not self._open:
            raise self._failure.with_traceback(None)  # otherwise each raise would make it longer


async def _end_of(log: Log, contact: Contact) -> int:
    """Ask for a log's end until the engine answers."""
    backoff = Backoff()
    while True:
        try:
            return await log.end()
        except LogUnavailable as error:
            contact.lose(error)
            await asyncio.sleep(backoff.next_delay())


async def _within(timer: Timer, timeout: float | None, future: "asyncio.Future[T]") -> T:
    """Await a future that is cancelled if the caller is, or after ``timeout`` seconds with `TimeoutError`."""
    expiry = None
    try:
        if timeout is not None:
            expiry = timer.call_later(timeout, future.cancel)
        return await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if expiry is None or not expiry.fired or (task is not None and task.cancelling()):
            raise
        raise TimeoutError from None
    finally:
        future.cancel()
        if expiry is not None:
            expiry.cancel()
