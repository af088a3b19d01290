"""The operations of the fold: pending in a purgatory, then kept for the retention time; their ids for that time again.

An operation's condition, its watch keys and its deadline are the library's. Ended ones leave in the order of their
ends, so a queue is enough and no timer is needed: what is forgotten has no effect on anything else.
"""

import datetime as dt
from collections import deque
from collections.abc import Iterator
from typing import Final, cast, final

from msgspec import UnsetType

from purgatory_async import Outcome, Purgatory
from purgatory_async.durable.documents import Attached, OperationView, State
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.fold.kept_bytes import KeptBytes, length, size_of_operation, text_of_id
from purgatory_async.durable.fold.needs import Voters, need_for
from purgatory_async.durable.fold.remembered import Remembered
from purgatory_async.durable.fold.shared import AT_ONCE, NEVER_US, SECOND, Effect, Shared, whole_ms
from purgatory_async.durable.fold.signalled import STATES, SignalledOperation
from purgatory_async.durable.fold.signals import Ledger, Newest, Signal
from purgatory_async.events import Observer

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Shown(Ledger):
    """The signals of an operation, which count as long as it shows them, and are pinned until it ends.

    Args:
        kept: Where they are counted.
    """

    __slots__ = ("_kept",)

    def __init__(self, kept: KeptBytes) -> None:
        super().__init__()
        self._kept = kept

    def note(self, signal: Signal) -> Signal | None:
        """Add a signal; see `Ledger.note`. O(1)."""
        replaced = super().note(signal)
        self._kept.show(signal)
        if replaced is not None:
            self._kept.unpin(replaced)
            self._kept.let_go(replaced)
        return replaced

    def unpin(self) -> None:
        """Let the signals become history. O(signals)."""
        for signal in self.latest.values():
            self._kept.unpin(signal)

    def let_go(self) -> None:
        """Drop the signals. O(signals)."""
        for signal in self.latest.values():
            self._kept.let_go(signal)


@final
class Operation(SignalledOperation):
    """An operation of the log; ``submitted`` is the log time of its submission.

    Attributes:
        position: The position of its submission.
        id: Its id.
        data: The client's attachment.
        deadline_us: The log time at which it expires; None for none.
        ended_us: The log time of its end; 0 while it is pending.
        owner: Who submitted it; None without tokens.
        size: The bytes that it counts, without its signals.
    """

    __slots__ = (
        *("_operations", "data", "deadline_us", "ended_us", "id"),
        *("owner", "position", "size"),
    )

    def __init__(
        self,
        operations: "Operations",
        order: SubmitOperation,
        position: int,
        submitted_us: int,
        timeout: float | None,
    ) -> None:
        SignalledOperation.__init__(  # not by super(), which takes as long as the call
            self,
            operations.signals,
            order.keys,
            need_for(order.need, order.keys, operations.kept, order.owner),
            timeout,
            submitted=submitted_us,
        )
        self.position = position
        self._operations = operations
        self.id = order.id
        self.data = order.data
        self.owner = order.owner
        self.deadline_us = None if order.timeout_us is None else submitted_us + order.timeout_us
        self.ended_us = 0
        self.size = size_of_operation(order)

    def _new_ledger(self) -> Ledger:
        return Shown(self._operations.kept)

    @property
    def shown(self) -> Shown | None:
        """Its signals; None if it has none."""
        return cast("Shown | None", self._ledger)

    def on_complete(self) -> None:
        """Start its retention: it has completed or expired."""
        self._operations.ended(self)

    def end_as(self, state: str, ended_us: int, result: Attached) -> None:
        """Take the state of a saved operation that has ended; nothing else happens."""
        self._state = Outcome(state)
        self.ended_us = ended_us
        self.result = result

    @property
    def state(self) -> State:
        """``pending``, or how it ended."""
        return STATES[self.outcome]

    @property
    def submitted_us(self) -> int:
        """The log time of its submission."""
        return int(self.submitted)

    def view(self, now_us: int) -> OperationView:
        """Return its status; the log time matters only while it is pending."""
        submitted_us = int(self.submitted)
        submitted_at = _EPOCH + dt.timedelta(0, 0, submitted_us)  # by name it takes half as long again
        deadline_us = self.deadline_us
        deadline = None if deadline_us is None else _EPOCH + dt.timedelta(0, 0, deadline_us)
        elapsed = ((self.ended_us or now_us) - submitted_us) / SECOND
        return self.described(self.id, self.data, submitted_at, deadline, elapsed, owner=self.owner)


class OperationSubmitted(Effect, frozen=True, eq=False):
    """A new operation is pending."""

    operation: Operation

    @property
    def fact(self) -> tuple[str | int, ...]:
        """Its id."""
        return (self.operation.id,)


class OperationEnded(Effect, frozen=True, eq=False):
    """An operation has ended, in any way."""

    operation: Operation

    @property
    def fact(self) -> tuple[str | int, ...]:
        """Its id, how it ended and when."""
        return (self.operation.id, self.operation.state, self.operation.ended_us)


class Operations:
    """All operations, by id.

    Args:
        shared: Limits, timer and step.
        signals: The newest signal, which a check counts.
        observer: The observer of the purgatory; None for none.
    """

    def __init__(self, shared: Shared, signals: Newest, observer: Observer | None = None) -> None:
        self.signals: Final = signals
        self.purgatory: Final = Purgatory("operations", timer=shared.timer, observer=observer)
        self.by_id: Final[dict[str, Operation]] = {}
        self.ended_ones: Final[deque[Operation]] = deque()
        self.forgotten: Final[Remembered[str, str | None]] = Remembered(shared, text_of_id)
        """The ids of those that were kept, with their owners."""
        self.pending_of: Final[dict[str, int]] = {}
        """How many operations of each owner are pending; owners without any are absent."""
        self.idem_of: Final[dict[str, tuple[str, str]]] = {}
        """The Idempotency-Key and digest of each operation that has one."""
        self.by_idem: Final[dict[tuple[str | None, str], Operation]] = {}
        """The operations by owner and Idempotency-Key."""
        self.voting = 0
        """How many pending operations count voters."""
        self.kept: Final = shared.kept
        self._shared: Final = shared

    def submit(self, order: SubmitOperation) -> Operation:
        """Add a pending operation under a free id. O(keys)."""
        shared = self._shared
        now_us = shared.clock.now_us
        timeout = shared.seconds_until(now_us + order.timeout_us) if order.timeout_us else order.timeout_us
        operation = Operation(self, order, shared.position, now_us, timeout)
        shared.totals.submitted += 1
        shared.effects.append(OperationSubmitted(operation))
        self.add(operation, order.idem, order.digest)
        self.purgatory.try_complete_else_watch(operation, order.keys)
        return operation

    def watch(self, operation: Operation) -> None:
        """Let a new operation wait. O(keys)."""
        self.purgatory.try_complete_else_watch(operation, operation.watch_keys)

    def add(self, operation: Operation, idem: str | UnsetType, digest: str) -> None:
        """Register a pending operation, also under its Idempotency-Key. O(1)."""
        owner = operation.owner
        self.kept.pin(operation.size, owner)
        self.voting += isinstance(operation.need, Voters)
        self.by_id[operation.id] = operation
        self.forgotten.discard(operation.id)
        if owner is not None:
            self.pending_of[owner] = self.pending_of.get(owner, 0) + 1
        if isinstance(idem, str):
            self.by_idem[owner, idem] = operation
            self.idem_of[operation.id] = (idem, digest)

    def end(self, operation: Operation, how: str, result: Attached) -> None:
        """End a pending operation for a client. O(keys)."""
        if how == "completed":
            operation.force_complete(result)
        else:
            operation.cancel()
            self.ended(operation)

    def withdraw(self, operation: Operation) -> bool:
        """Take a pending operation back and remember nothing of it, without a log; False if it has ended. O(keys)."""
        if operation.outcome is not None:
            return False
        operation.cancel()
        self._shared.totals.ended["cancelled"] += 1
        self._age(operation)
        self._remove(operation)
        return True

    def ended(self, operation: Operation) -> None:
        """Keep an operation that has just ended for the retention time. O(its signals)."""
        shared = self._shared
        operation.ended_us = shared.clock.now_us
        shared.totals.ended[STATES[operation.outcome]] += 1
        shared.effects.append(OperationEnded(operation))
        self.keep(operation)

    def keep(self, operation: Operation) -> None:
        """Put an operation that was pending until now behind those that ended before. O(its signals)."""
        self.ended_ones.append(operation)
        self._age(operation)

    def make_room(self) -> bool:
        """Forget the operation that ended first; False if only the newest is left, whose client has yet to read it."""
        if len(self.ended_ones) <= 1:
            return False
        self._forget_oldest(self._shared.clock.now_us)
        return True

    def pending(self) -> Iterator[Operation]:
        """Iterate over the pending operations in the order of their submission. O(n)."""
        return (each for each in self.purgatory.operations() if isinstance(each, Operation))

    def forget(self, whole_us: int) -> int:
        """Forget some of what was kept long enough at a log time in whole milliseconds. O(forgotten).

        Returns:
            When the next is to be forgotten; if that is not after ``whole_us``, there is more to forget now.
        """
        retention = self._shared.limits.retention_us
        for _ in range(AT_ONCE):
            next_us = self.ended_ones[0].ended_us + retention if self.ended_ones else NEVER_US
            if next_us > whole_us:
                return min(next_us, self.forgotten.forget(whole_us))
            self._forget_oldest(max(whole_ms(next_us), self._shared.before_us))
        return whole_us

    def _forget_oldest(self, at_us: int) -> None:
        operation = self.ended_ones.popleft()
        self._remove(operation)
        self.forgotten.add(operation.id, at_us, operation.owner)

    def _no_longer_pending(self, operation: Operation) -> None:
        owner = operation.owner
        if owner is not None:
            self.pending_of[owner] -= 1
            if not self.pending_of[owner]:
                del self.pending_of[owner]

    def _age(self, operation: Operation) -> None:
        """Let a pending operation become history, with its result."""
        kept, shown, need = self.kept, operation.shown, operation.need
        if isinstance(need, Voters):
            self.voting -= 1
            need.clear()
        self._no_longer_pending(operation)
        kept.age(operation.size, operation.owner)
        result = length(operation.result)
        if result:
            operation.size += result
            kept.drop(-result)
        if shown is not None:
            shown.unpin()

    def _remove(self, operation: Operation) -> None:
        self.kept.drop(operation.size)
        if operation.shown is not None:
            operation.shown.let_go()
        del self.by_id[operation.id]
        idem = self.idem_of.pop(operation.id, None)
        if idem is not None:
            del self.by_idem[operation.owner, idem[0]]
