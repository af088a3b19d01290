"""The service without HTTP: one purgatory, one timer, and the parts that observe them.

All waits (operations, one-shot waits, held requests, retention) are on one timer. The parts are tied by the purgatory's
events: the metrics count them, the registry starts a retention time, the holds release their requests. Nothing polls.
"""

import datetime as dt
import platform
import random
import secrets
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from msgspec import UnsetType

from purgatory_async import Outcome, Purgatory, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.events import Observers
from purgatory_async.metrics import Metrics
from purgatory_async.service import problems
from purgatory_async.service.http.feed import Feed
from purgatory_async.service.http.holds import Holds
from purgatory_async.service.http.stream import Streams
from purgatory_async.service.messages import Attached, Draining, Signalled, Submit, WireNeed, kept
from purgatory_async.service.records import UNRECORDED, Records
from purgatory_async.service.settings import Settings
from purgatory_async.service.state.names import checked_id, distinct_keys
from purgatory_async.service.state.needs import need_for
from purgatory_async.service.state.operations import Operation, SignalledOperation
from purgatory_async.service.state.queues import Queues
from purgatory_async.service.state.registry import Registry
from purgatory_async.service.state.signals import Board
from purgatory_async.service.stats.recent import Recent
from purgatory_async.service.stats.survey import Survey
from purgatory_async.service.version import CORE, VERSION
from purgatory_async.web.durations import checked_timeout
from purgatory_async.web.waiting import RETRY_SPREAD, shortened

ID_BYTES: Final = 16


def utc_now() -> dt.datetime:
    """Return the wall clock's time, which is only shown: deadlines use the timer."""
    return dt.datetime.now(dt.UTC)


class Service:
    """Operations, keys and held requests of one process.

    Args:
        settings: The limits.
        timer: For every wait; None makes one.
        wall_clock: The time that operations show.
        draw: Returns a random fraction from 0 to 1, for the jitter.

    Raises:
        SettingsError: The journal's directory cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timer: Timer | None = None,
        wall_clock: Callable[[], dt.datetime] = utc_now,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.settings: Final = settings
        self.timer: Final = Timer() if timer is None else timer
        self.metrics: Final = Metrics()
        self.board: Final = Board(self.timer, settings.retention)
        self.registry: Final = Registry(self.timer, settings.retention)
        self.holds: Final = Holds(self.timer, settings.max_pending, self._count_undelivered)
        self.recent: Final = Recent(self.timer)
        self.feed: Final = Feed(self.timer, wall_clock, self.board.epoch)
        self.streams: Final = Streams(self.feed, self.timer)
        self.records: Final = Records(settings, self.timer, self.board)
        self.purgatory: Final = Purgatory(
            "operations",
            timer=self.timer,
            max_pending=settings.max_pending,
            observer=Observers(self.records, self.metrics, self.registry, self.holds, self.recent, self.feed),
        )
        self.queues: Final = Queues(
            self.timer,
            max_items=settings.max_items,
            max_takers=settings.max_pending,
            retention=settings.retention,
            on_undelivered=self._count_undelivered,
        )
        self.survey: Final = Survey(self.purgatory, self.timer, self.recent, wall_clock)
        self.wall_clock: Final = wall_clock
        self.leaving = False  # /readyz answers 503; all other requests are served
        self.draining = False  # new waits are refused
        self._show_gauges()
        self._draw = draw
        self._sequence = count(1)
        self._turn = count()

    def __repr__(self) -> str:
        state = "draining" if self.draining else "serving"
        return f"<Service {state} pending={self.purgatory.pending} held={self.holds.held}>"

    def submit(self, order: Submit, idempotency_key: str | None, digest: bytes) -> Operation:
        """Register a new operation; with a timeout of 0 it expires in the next loop pass.

        Args:
            order: The decoded body.
            idempotency_key: Of the request; it is new.
            digest: Of the request's body.

        Raises:
            Problem: ``invalid``, ``bad-key``, ``too-many-keys``, ``duplicate-id``, ``overloaded`` or
                ``draining``; nothing is registered then.
        """
        if not order.keys:
            raise problems.invalid("/keys", f"must name at least one key, got {order.keys!r}")
        keys = distinct_keys(order.keys)
        try:
            timeout = checked_timeout(order.timeout)
        except ValueError as error:
            raise problems.invalid("/timeout", str(error)) from None
        operation_id = (
            secrets.token_urlsafe(ID_BYTES) if isinstance(order.id, UnsetType) else checked_id(order.id)
        )
        self.registry.check_free(operation_id)
        operation = Operation(
            self.board,
            keys,
            need_for(order.need, keys),
            timeout,
            next(self._sequence),
            operation_id=operation_id,
            data=kept(order.data),
            submitted=self.timer.time(),
            submitted_at=self.wall_clock(),
        )
        self.records.check_trouble()
        self._watch(operation)
        self.registry.add(operation, idempotency_key, digest)
        return operation

    async def record(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        """Wait until a submission is recorded; withdraw it if that fails while it is pending.

        Returns:
            Header fields for the answer, as of `Records.settle`.

        Raises:
            Problem: ``overloaded``; the operation is withdrawn.
        """
        if operation.recorded:
            return ()
        try:
            await self.records.commit()
        except problems.Problem:
            operation.cancel()
            if operation.outcome is not Outcome.CANCELLED:
                return (UNRECORDED,)
            self.registry.withdraw(operation)
            raise
        operation.recorded = True
        return ()

    def wait_once(self, keys: tuple[str, ...], need: WireNeed, wait: float) -> SignalledOperation:
        """Register a one-shot wait on distinct keys: an operation without an id, which expires after ``wait`` seconds.

        The caller cancels it when the client leaves.

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        operation = SignalledOperation(
            self.board, keys, need_for(need, keys), wait, next(self._sequence), submitted=self.timer.time()
        )
        self._watch(operation)
        return operation

    def _watch(self, operation: SignalledOperation) -> None:
        if self.draining:
            raise problems.draining()
        self.records.check_accepting()
        try:
            self.purgatory.try_complete_else_watch(operation, operation.watch_keys)
        except PurgatoryFull:
            raise problems.overloaded("operations and one-shot waits", self.settings.max_pending) from None
        except PurgatoryClosed:
            raise problems.draining() from None

    def signal(self, key: str, value: Attached, amount: int, voter: str | UnsetType) -> Signalled:
        """Signal a key. O(operations that watch it).

        Returns:
            The signal's index and how many operations and one-shot waits it completed.

        Raises:
            Problem: ``overloaded``: it could not be recorded.
        """
        self.records.check_trouble()
        signal = self.board.note(key, kept(value), amount, voter)
        return Signalled(key, signal.view.index, self.purgatory.check_and_complete(key))

    def pending(self, key: str | None, after: int = 0) -> Iterator[Operation]:
        """Iterate over the pending operations with an id, in the order of submission; see `Registry.pending_after`."""
        return self.registry.pending_after(after, key, self.purgatory)

    def shortened(self, wait: float) -> float:
        """Return a wait in seconds, shortened by the next draw of the jitter."""
        return shortened(wait, self.settings.jitter, self._draw())

    def retry_after(self) -> int:
        """Return after how many seconds the next refused client may retry: each second of the spread in turn.

        Turns spread a herd evenly; random numbers do so only on average.
        """
        return next(self._turn) % RETRY_SPREAD + 1

    def note_lag(self, seconds: float) -> None:
        """Count a delay of the event loop."""
        self.metrics.loop_lag.observe(seconds)
        self.recent.note_lag(seconds)

    def _count_undelivered(self) -> None:
        self.metrics.undelivered += 1

    def _show_gauges(self) -> None:
        self.metrics.info(
            "purgatory_build_info",
            "Version, interpreter, and core: compiled or pure.",
            version=VERSION,
            python=platform.python_version(),
            core=CORE,
        )
        self.metrics.gauge(self.purgatory)
        self.records.show(self.purgatory, self.metrics)
        for name, documentation, read in (
            ("held", "Requests held for an operation, a key or a one-shot wait.", lambda: self.holds.held),
            ("takers", "Requests held for an item of a queue.", lambda: self.queues.takers),
            ("items", "Items kept in queues.", lambda: self.queues.items),
            ("leases", "Items on loan.", lambda: self.queues.leases),
            ("streams", "Readers of the events.", lambda: len(self.streams.running)),
        ):
            self.metrics.show(f"purgatory_{name}", documentation, read)

    def drain(self) -> int:
        """Refuse new waits and end every held request with ``draining``; return how many. Idempotent.

        Signals, completions and reads go on.
        """
        self.leaving = self.draining = True
        return self.holds.close() + self.queues.drain() + self.streams.close()

    def begin_drain(self) -> Draining:
        """Become not ready, serve for the drain delay, then `drain`; return what it will end. Idempotent."""
        held = self.holds.held + self.queues.takers + len(self.streams.running)
        if not self.leaving:
            self.leaving = True
            if self.settings.drain_delay:
                self.timer.call_later(self.settings.drain_delay, self.drain)
            else:
                self.drain()
        return Draining(held, self.registry.pending)

    def close(self) -> None:
        """Drain, and end all pending operations as closed. Idempotent."""
        self.drain()
        self.queues.close()
        self.registry.close()
        self.purgatory.close()
        self.records.close()
        self.timer.close()
