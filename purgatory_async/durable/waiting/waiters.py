"""What waits in this process for something in the state: each a delayed operation, in a separate purgatory.

A waiter watches an operation (until it ends), a key (until its next signal), what a follower of signals hears, or a
place in line at a queue (until it has an item). Its outcomes: that happened (completed), the wait is over (expired),
its caller left (cancelled), the process leaves (closed). So the end of a wait never ends an operation, and one limit
and one `close` cover all waits.

Those that watch the same are completed a few at a time. Until its turn comes a waiter can end otherwise, so one whose
wait is over reads the state once more.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.state import Guard
from purgatory_async.durable.waiting.pacing import Pace, in_turn
from purgatory_async.events import Handlers, Handling, KeySignalled, OperationEnded

G = TypeVar("G", bound=Guard)


class Waiter(DelayedOperation[None]):
    """Something that waits; ``lost`` if the state is of another history now."""

    __slots__ = ("lost",)

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout)
        self.lost = False


class Waiters(Handling, Generic[G]):
    """Waiters of one sort; those for operations and keys observe the operations.

    Args:
        name: The name of their purgatory.
        timer: For the waits.
        pace: At which those that watch the same complete.
        limit: The most that wait at once.
        closed: Returns why a wait ended by `close`, or did not begin after it.

    Attributes:
        limit: The most that wait at once.
    """

    def __init__(
        self,
        name: str,
        timer: Timer,
        pace: Pace,
        limit: int,
        closed: Callable[[], Exception] = problems.draining,
    ) -> None:
        self._purgatory: Final = Purgatory(name, timer=timer, max_pending=limit)
        self._pace: Final = pace
        self.limit: Final = limit
        self._why_closed: Final = closed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._purgatory.name} held={self.count} limit={self.limit}>"

    @property
    def count(self) -> int:
        """How many wait. O(1)."""
        return self._purgatory.pending

    def check_limit(self) -> None:
        """Check that one more can wait, before registering anything for it. O(1).

        Raises:
            Problem: ``overloaded``.
            Exception: They are closed, with the reason.
        """
        if self._purgatory.closed:
            raise self._why_closed()
        if self._purgatory.pending >= self.limit:
            raise problems.overloaded("requests", self.limit)

    async def until(
        self,
        by: G,
        watched: Hashable,
        wait: float | None,
        begin: Callable[[], Awaitable[bool]] | None = None,
    ) -> bool:
        """Wait until something happens, or the wait is over.

        Args:
            by: Who waits.
            watched: A key, `end_of` a pending operation, or what `happened` is called with.
            wait: Seconds; None for no limit.
            begin: Awaited first, when it is watched for already; False if there is nothing to wait for.

        Returns:
            True if it happened, False if the wait is over.

        Raises:
            Problem: ``overloaded`` or ``gap``.
            Exception: They are closed, also while it waits.
        """
        waiter = self._waiter(by, wait)
        self._watch(waiter, watched)
        try:
            if begin is not None and not await begin():
                return False
            await waiter
        finally:
            # Also when the caller's task is cancelled.
            waiter.cancel()
            self._forget(waiter)
        return self._happened(waiter)

    def _waiter(self, by: G, wait: float | None) -> Waiter:
        """Make a waiter."""
        del by
        return Waiter(wait)

    def _watch(self, waiter: Waiter, watched: Hashable) -> None:
        """Begin to wait."""
        try:
            self._purgatory.try_complete_else_watch(waiter, (watched,))
        except PurgatoryFull:
            raise problems.overloaded("requests", self.limit) from None
        except PurgatoryClosed:
            raise self._why_closed() from None
        self._begun(waiter)

    def _begun(self, waiter: Waiter) -> None:
        """Note that a waiter waits."""

    def _forget(self, waiter: Waiter) -> None:
        """Note that a waiter has ended."""

    def _check(self, waiter: Waiter) -> None:
        """Check that the caller of an ended one may go on."""

    def _happened(self, waiter: Waiter) -> bool:
        """Return whether what an ended one watched has happened; raise if its caller may not go on."""
        self._check(waiter)
        if waiter.lost:
            raise problems.gap()
        if waiter.outcome is Outcome.CLOSED:
            raise self._why_closed()
        return waiter.outcome is Outcome.COMPLETED

    def handlers(self) -> Handlers:
        """Complete what waits for an ended operation or a signalled key."""
        return {OperationEnded: self._operation_ended, KeySignalled: self._key_signalled}

    def _operation_ended(self, event: OperationEnded) -> None:
        if self._purgatory.pending:  # what ends most often has none
            self.happened(end_of(event.operation))

    def _key_signalled(self, event: KeySignalled) -> None:
        self.happened(event.key)

    def happened(self, watched: Hashable) -> bool:
        """Complete what waits for something, the oldest first; return whether there is any. O(waiters)."""
        waiters = list(self._purgatory.operations(watched))
        if len(waiters) == 1:
            return waiters[0].force_complete()
        if waiters:
            self._pace.complete(in_turn(waiters))
            return True
        return False

    def each_happened(self, watched: Iterable[Hashable]) -> None:
        """Complete what waits for several things, in this order; looks for it when its turn comes."""
        self._pace.complete(
            waiter for each in in_turn(watched) for waiter in self._purgatory.operations(each)
        )

    def look_again(self, *, lost: bool) -> None:
        """Complete all, because the state was loaded again; with ``lost`` it is another history. O(waiters)."""
        for waiter in list(self._purgatory.operations()):
            assert isinstance(waiter, Waiter), "only waiters are here"
            waiter.lost = lost
            waiter.force_complete(None)

    def close(self) -> int:
        """End every wait, refuse new ones; return how many there were."""
        return len(self._purgatory.close())


def end_of(operation: DelayedOperation[Any]) -> Hashable:
    """Return what waits for an operation's end watch: its id in a tuple, as keys are text; or a one-shot wait."""
    return (operation.id,) if isinstance(operation, Operation) else operation
