"""Signals for the purgatories of several workers, over one log."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Final, Self, TypeVar

from purgatory_async import OperationExpired, Purgatory, PurgatoryError
from purgatory_async.clock import check_timeout
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.contact import Contact
from purgatory_async.cluster.entries import (
    LEVEL,
    Signalled,
    WireEntry,
    decode,
    encode,
    signal,
    signalled,
    size_of,
)
from purgatory_async.cluster.in_order import InOrder
from purgatory_async.cluster.log import (
    Appended,
    Entry,
    Head,
    Log,
    LogError,
    LogGap,
    LogRefused,
    LogUnavailable,
)
from purgatory_async.cluster.repetitions import Repetitions, Verdict
from purgatory_async.cluster.replica import Replica
from purgatory_async.cluster.retention import Retention
from purgatory_async.cluster.writer import Writer
from purgatory_async.errors import check_result
from purgatory_async.patterns import Watermark
from purgatory_async.patterns._arguments import check_function

__all__ = ["Cluster"]

ASK_S: Final = 1.0  # how often the log is asked for its end
TRIM_S: Final = 60.0
SLICE: Final = 256  # keys checked after a gap before other tasks run

T = TypeVar("T")


class Cluster:
    """Signals on the keys of a purgatory that reach the same purgatory of every worker on the log.

    Use it as an async context manager. It opens the log, starts at its end, and closes it; the purgatory stays open.
    Every worker applies every signal in the order of the log, its own included: first ``apply``, so that conditions see
    what the signal brought, then ``purgatory.check_and_complete(key)``.

    An operation that is watched before a signal is appended is checked for it. If its condition is in a database, write
    to the database, then signal: `Purgatory.try_complete_else_watch` looks at it once more after it watches.

    Args:
        purgatory: The purgatory to check.
        log: A log that is not yet open.
        apply: A plain or async function, called with each signal in the order of the log. An async one is awaited
            before the key is checked and the next signal applied, so it must not await this cluster; leaving the
            cluster waits for it. Its errors go to the loop's exception handler, and the signal counts as applied.
        on_gap: Called, and awaited if it is async, when the log no longer has entries that this worker has not applied;
            load again what signals told. Then every pending operation is checked on all its keys.

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
        self._purgatory = purgatory
        self._log = log
        self._apply = apply
        self._on_gap = on_gap
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: LogError | PurgatoryError = PurgatoryError("cluster is not open: cannot use it")
        self._open = False
        # Until the log is open.
        self._replica = Replica(log, Head("", 0, 0, 1, 0), self._take)
        self._reached = Watermark(timer=purgatory.timer)
        self._order = InOrder(self._ended)
        self._contact = Contact(0, lambda: 0.0)

    def __repr__(self) -> str:
        state = f"at {self.position}" if self._open else "not open"
        return f"<Cluster of {self._purgatory.name!r} {state}>"

    async def __aenter__(self) -> Self:
        """Open the log; raises what `Log.open` does."""
        head = await self._log.open()
        loop = asyncio.get_running_loop()
        self._order = InOrder(self._ended)
        self._replica = Replica(self._log, head, self._take, self._order.rest)
        self._writer = Writer[WireEntry, int](
            self._log, encode=encode, introduction=WireEntry(k="alive"), appended=self._appended
        )
        self._repetitions = Repetitions(since_us=head.at_us)
        self._retention = Retention(self._log, head, kind_of=lambda entry: decode(entry).k)
        self._reached = Watermark(head.position, timer=self._purgatory.timer)
        self._contact = Contact(head.position, loop.time)
        self._open = True
        for work in (self._read(), self._writer.run(), self._ask(), self._trim()):
            task = loop.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the log; signals and waits under way raise `LogError`. An async ``apply`` under way is awaited."""
        self._stop(LogError("cluster is closed: cannot use it"))
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._order.finished()
        finally:
            await self._log.aclose()

    @property
    def position(self) -> int:
        """The newest position that this worker has applied."""
        return self._reached.value

    @property
    def epoch(self) -> str:
        """The log's epoch; positions of another one mean something else."""
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
        proposed = self._writer.propose(entry, size_of(entry))
        expiry = None
        try:
            if timeout is not None:
                expiry = self._purgatory.timer.call_later(timeout, self._expire, proposed, key, timeout)
            return await proposed
        finally:
            proposed.cancel()
            if expiry is not None:
                expiry.cancel()

    async def caught_up(self, position: int | None = None, timeout: float | None = None) -> int:
        """Wait until this worker has applied a position; if not given, the log's end now. Returns where it is.

        Raises:
            OperationExpired: It did not within ``timeout`` seconds of the purgatory's clock.
            LogUnavailable: The engine cannot be asked for its end, or there was a gap.
            LogError: The cluster is closed, or the log has failed for good.
        """
        self._require_open()
        timeout = check_timeout(timeout)
        timer, left = self._purgatory.timer, timeout
        if position is None:
            asking = asyncio.ensure_future(self._log.end())
            begun = timer.time()
            expiry = None if timeout is None else timer.call_later(timeout, asking.cancel)
            try:
                position = await asking
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if expiry is None or not expiry.fired or (task is not None and task.cancelling()):
                    raise
                raise OperationExpired(
                    f"the log's end did not come within {timeout} s; the cluster is at {self.position}",
                    timeout=timeout,
                ) from None
            finally:
                asking.cancel()
                if expiry is not None:
                    expiry.cancel()
            self._hear(position)
            left = None if timeout is None else max(0.0, timeout - (timer.time() - begun))
        return await self._reached.reach(position, left)

    # Applying.

    def _appended(self, appended: Appended, batch: Sequence[bytes]) -> None:
        self._hear(appended.first + len(batch) - 1)
        self._replica.appended(appended, batch)

    def _take(self, entry: Entry) -> None:
        """Apply the next entry of the log."""
        wire = decode(entry)
        verdict = Verdict.NEW
        if wire.w is not None:
            introduces = wire.k == "alive"
            verdict = self._repetitions.judge(wire.w, wire.n, introduces=introduces, at_us=entry.at_us)
        self._retention.note(entry, wire.k)
        if wire.k == "level" and wire.level > LEVEL:
            raise LogRefused(
                f"the log must be at level {LEVEL} or below, got {wire.level}; upgrade this package"
            )
        if wire.k == "signal" and verdict is Verdict.NEW:
            if self._apply is not None:
                self._order.run(partial(self._call, self._apply, signalled(entry, wire)))
            self._order.run(partial(self._check, wire.key))
        self._order.run(partial(self._settle, entry.position, wire, verdict))

    def _check(self, key: str) -> None:
        self._purgatory.check_and_complete(key)

    def _settle(self, position: int, wire: WireEntry, verdict: Verdict) -> None:
        if wire.w == self._writer.name:
            self._writer.settle(wire.n, verdict, position)
        self._reached.advance(position)
        self._hear(position)

    def _hear(self, position: int) -> None:
        self._contact.hear(position, applied=self.position)

    def _call(self, callback: Callable[[T], object], argument: T) -> Awaitable[None] | None:
        """Call a function of the application; returns what is left to await of an async one."""
        try:
            returned = callback(argument)
            if isawaitable(returned):
                return self._awaited(callback, argument, returned)
            check_result("apply or on_gap", callback, returned)
        except Exception as error:  # noqa: BLE001 - the application's; the next signal follows
            self._report(callback, argument, error)
        return None

    async def _awaited(
        self, callback: Callable[[T], object], argument: T, waiting: Awaitable[object]
    ) -> None:
        try:
            await waiting
        except Exception as error:  # noqa: BLE001 - as above
            self._report(callback, argument, error)
        except asyncio.CancelledError as error:  # of what it awaits, unless this task is cancelled
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._report(callback, argument, error)

    def _report(self, callback: object, argument: object, error: BaseException) -> None:
        message = f"{callback!r} of {self!r} raised for {argument!r}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

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
        await self._order.finished()
        lost = LogUnavailable(f"the log has a gap before position {gap.oldest}: the outcome is unknown")
        if gap.epoch == self.epoch and gap.oldest > self.position:
            position = gap.oldest - 1
            self._reached.advance(position)
        else:
            # Positions up to the end may mean other entries than those that waits were promised.
            position = await self._end()
            reached, self._reached = self._reached, Watermark(position, timer=self._purgatory.timer)
            reached.fail_all(lost)
        self._replica.restart(position, gap.epoch)
        self._repetitions = Repetitions()
        self._retention.restart(gap.oldest, position)
        self._contact.known = position
        self._writer.lose(lost)
        if self._on_gap is not None and (waiting := self._call(self._on_gap, gap)) is not None:
            await waiting
        keys = dict.fromkeys(key for operation in self._purgatory.operations() for key in operation.keys)
        for count, key in enumerate(keys, start=1):
            self._purgatory.check_and_complete(key)
            if count % SLICE == 0:
                await asyncio.sleep(0)

    async def _end(self) -> int:
        backoff = Backoff()
        while True:
            try:
                return await self._log.end()
            except LogUnavailable as error:
                self._contact.lose(error)
                await asyncio.sleep(backoff.next_delay())

    async def _ask(self) -> None:
        """Ask for the log's end, so that `connected` and `lag` are true while it is quiet."""
        while True:
            self._hear(await self._end())
            await asyncio.sleep(ASK_S)

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(TRIM_S * random.uniform(0.5, 1.5))  # noqa: S311 - so that workers take turns
            with contextlib.suppress(LogGap, LogUnavailable):
                await self._retention.trim()

    # Ending.

    def _expire(self, proposed: "asyncio.Future[int]", key: str, timeout: float) -> None:
        if not proposed.done():
            late = f"the signal on {key!r} was not applied within {timeout} s; it may still happen"
            proposed.set_exception(LogUnavailable(late))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self._open:
            message = f"{self!r} stops applying signals"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
            self._stop(error if isinstance(error, LogError) else LogError(f"cluster has failed: {error!r}"))

    def _stop(self, reason: LogError) -> None:
        if self._open:
            self._open = False
            self._failure = reason
            self._order.close()
            for task in self._tasks:
                task.cancel()
            self._writer.fail(reason)
            self._reached.fail_all(reason)

    def _require_open(self) -> None:
        if not self._open:
            raise self._failure.with_traceback(None)  # otherwise each raise would make it longer
