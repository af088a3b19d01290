"""The operations of the fold: pending in a purgatory, then kept for the retention time; their ids for that time again.

An operation's condition, its watch keys and its deadline are the library's. Ended ones leave in the order of their
ends, so a queue is enough and no timer is needed: what is forgotten has no effect on anything else. Those that are kept
for a time of their own are in `kept_answers`.
"""

import datetime as dt
from collections import deque
from collections.abc import Iterator
from typing import Final, cast, final

from msgspec import UNSET, UnsetType

from purgatory_async import Outcome, Purgatory
from purgatory_async.durable.documents import Attached, OperationView, State
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.fold.kept_answers import Gone, KeptAnswers
from purgatory_async.durable.fold.kept_bytes import KeptBytes, length, size_of_operation, text_of_id
from purgatory_async.durable.fold.needs import Voters, need_for
from purgatory_async.durable.fold.promises import Ending, Promise, Questions, size_of_promise
from purgatory_async.durable.fold.queues import Queues
from purgatory_async.durable.fold.remembered import Remembered
from purgatory_async.durable.fold.same import Terms
from purgatory_async.durable.fold.shared import AT_ONCE, NEVER_US, SECOND, Effect, Shared, whole_ms
from purgatory_async.durable.fold.signalled import STATES, SignalledOperation
from purgatory_async.durable.fold.signals import Ledger, Newest, Signal
from purgatory_async.durable.fold.telling import Telling
from purgatory_async.errors import PurgatoryError
from purgatory_async.events import Observer

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FAILED: Final = PurgatoryError("its error is in its ending")  # nothing awaits an operation of the fold


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
        promise: What else it has; None for nothing.
        ending: Who ended it; None while it is pending, and without an answer.
    """

    __slots__ = (
        *("_operations", "data", "deadline_us", "ended_us", "ending", "id"),
        *("owner", "position", "promise", "size"),
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
        self.ending: Ending | None = None
        self.promise: Promise | None = None

    def promise_as(self, order: SubmitOperation, promise: Promise) -> None:
        """Take over what its submission asks for besides the usual. O(1)."""
        self.promise = promise
        self.size += size_of_promise(order)
        if not isinstance(promise.until_us, UnsetType):
            self.deadline_us = promise.until_us

    def _new_ledger(self) -> Ledger:
        return Shown(self._operations.kept)

    @property
    def shown(self) -> Shown | None:
        """Its signals; None if it has none."""
        return cast("Shown | None", self._ledger)

    def on_complete(self) -> None:
        """Start its retention: it has completed or expired."""
        self._operations.ended(self)

    def on_expiration(self) -> None:
        """Tell its end."""
        self._operations.telling.ends()

    def end_as(self, state: str, ended_us: int, result: Attached, ending: Ending | None) -> None:
        """Take the state of a saved operation that has ended; nothing else happens."""
        self._state = Outcome(state)
        self.ended_us = ended_us
        self.result = result
        self.ending = ending

    def promised(self) -> Promise:
        """Return what it has besides the usual, so that it can be changed. O(1)."""
        if self.promise is None:
            self.promise = Promise(self.timeout_us)
        return self.promise

    @property
    def timeout_us(self) -> int | None:
        """Its timeout as it was submitted; None for none, or a deadline in its place."""
        if self.promise is not None:
            return self.promise.timeout_us
        return None if self.deadline_us is None else self.deadline_us - self.submitted_us

    @property
    def asks(self) -> bool:
        """Whether it has a question."""
        return self.promise is not None and self.promise.ask is not UNSET

    @property
    def terms(self) -> Terms:
        """What it was submitted with."""
        promise = Promise(self.timeout_us) if self.promise is None else self.promise
        return Terms(
            *(self.watch_keys, self.need.wire, promise.timeout_us, promise.until_us, promise.keep_us),
            *(promise.ask, promise.announce, promise.deliver, self.data),
        )

    @property
    def keep_us(self) -> int | None:
        """How long it is kept after its end, whatever the room; None for the retention time."""
        keep_us = UNSET if self.promise is None else self.promise.keep_us
        return None if isinstance(keep_us, UnsetType) else keep_us

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
        submitted_us, ended_us = int(self.submitted), self.ended_us
        submitted_at = _EPOCH + dt.timedelta(0, 0, submitted_us)  # by name it takes half as long again
        deadline_us = self.deadline_us
        deadline = None if deadline_us is None else _EPOCH + dt.timedelta(0, 0, deadline_us)
        elapsed = ((ended_us or now_us) - submitted_us) / SECOND
        view = self.described(self.id, self.data, submitted_at, deadline, elapsed, owner=self.owner)
        if ended_us:
            keep_us = self._operations.retention_us if self.keep_us is None else self.keep_us
            view.ended_at = _EPOCH + dt.timedelta(0, 0, ended_us)
            view.kept_until = _EPOCH + dt.timedelta(0, 0, ended_us + keep_us)
        ending, promise = self.ending, self.promise
        if ending is not None:
            view.by, view.error = ending.by, ending.error
            view.via = UNSET if ending.via is None else ending.via
        if promise is not None:
            view.ask, view.announce, view.deliver = promise.ask, promise.announce, promise.deliver
            view.gap = promise.gap or UNSET
            view.keep = UNSET if isinstance(promise.keep_us, UnsetType) else promise.keep_us / SECOND
        return view


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


class OperationRescheduled(Effect, frozen=True, eq=False):
    """A pending operation expires at another time."""

    operation: Operation

    @property
    def fact(self) -> tuple[str | int, ...]:
        """Its id and its deadline; -1 for none."""
        deadline_us = self.operation.deadline_us
        return (self.operation.id, -1 if deadline_us is None else deadline_us)


class Operations:
    """All operations, by id.

    Args:
        shared: Limits, timer and step.
        signals: The newest signal, which a check counts.
        queues: Some hear what happens to an operation.
        observer: The observer of the purgatory; None for none.
    """

    def __init__(self, shared: Shared, signals: Newest, queues: Queues, observer: Observer | None) -> None:
        self.signals: Final = signals
        self.purgatory: Final = Purgatory("operations", timer=shared.timer, observer=observer)
        self.by_id: Final[dict[str, Operation]] = {}
        self.ended_ones: Final[deque[Operation]] = deque()
        self.forgotten: Final[Remembered[str, str | None]] = Remembered(shared, text_of_id)
        """The ids of those that were kept for the retention time, with their owners."""
        self.answers: Final[KeptAnswers[Operation]] = KeptAnswers(shared)
        """Those that are kept for a time of their own."""
        self.pending_of: Final[dict[str, int]] = {}
        """How many operations of each owner are pending; owners without any are absent."""
        self.idem_of: Final[dict[str, tuple[str, str]]] = {}
        """The Idempotency-Key and digest of each operation that has one."""
        self.by_idem: Final[dict[tuple[str | None, str], Operation]] = {}
        """The operations by owner and Idempotency-Key."""
        self.questions: Final = Questions[Operation]()
        self.voting = 0
        """How many pending operations count voters."""
        self.telling: Final = Telling(queues)
        self.kept: Final[KeptBytes] = shared.kept
        self._shared: Final = shared

    @property
    def retention_us(self) -> int:
        """How long an ended operation is kept that has no time of its own."""
        return self._shared.limits.retention_us

    def submit(self, order: SubmitOperation, promise: Promise | None) -> Operation:
        """Add a pending operation under a free id, with what the order has besides the usual. O(keys)."""
        shared = self._shared
        now_us = shared.clock.now_us
        timeout = shared.seconds_until(now_us + order.timeout_us) if order.timeout_us else order.timeout_us
        operation = Operation(self, order, shared.position, now_us, timeout)
        if promise is not None:
            operation.promise_as(order, promise)
            if operation.deadline_us is not None and timeout is None:
                operation.timeout = self._left(operation.deadline_us)
        shared.totals.submitted += 1
        shared.effects.append(OperationSubmitted(operation))
        self.add(operation, order.idem, order.digest)
        self.purgatory.try_complete_else_watch(operation, order.keys)
        if promise is not None:
            self.telling.submitted(operation)
        return operation

    def reschedule(self, operation: Operation, deadline_us: int | None) -> None:
        """Let a pending operation expire at another log time, or never. O(1)."""
        shared = self._shared
        promise = operation.promised()
        promise.moved, operation.deadline_us = shared.position, deadline_us
        shared.effects.append(OperationRescheduled(operation))
        self.purgatory.reschedule(operation, None if deadline_us is None else self._left(deadline_us))

    def restart(self, operation: Operation) -> None:
        """Start the deadline of a restored operation that was rescheduled. O(1)."""
        if operation.deadline_us is not None:
            self.purgatory.reschedule(operation, self._shared.seconds_until(operation.deadline_us))

    def _left(self, deadline_us: int) -> float:
        """Return the seconds until a deadline; 0 if it is past."""
        shared = self._shared
        return shared.seconds_until(deadline_us) if deadline_us > shared.clock.now_us else 0.0

    def watch(self, operation: Operation) -> None:
        """Let a new operation wait. O(keys)."""
        self.purgatory.try_complete_else_watch(operation, operation.watch_keys)

    def add(self, operation: Operation, idem: str | UnsetType, digest: str) -> None:
        """Register a pending operation, also under its Idempotency-Key. O(1)."""
        owner = operation.owner
        self.kept.pin(operation.size, owner)
        self.voting += isinstance(operation.need, Voters)
        self.by_id[operation.id] = operation
        if operation.promise is not None:
            self.questions.begin(operation, operation.promise)
        self.forgotten.discard(operation.id)
        if operation.id in self.answers.ids.by_name:
            self.answers.discard(operation.id)
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
        self.telling.ends()

    def answer(self, operation: Operation, result: Attached, ending: Ending) -> None:
        """End a pending operation with an answer. O(keys)."""
        operation.ending = ending
        if ending.how == "fail":
            operation.fail(_FAILED)
            self.ended(operation)
        else:
            operation.force_complete(result)
        self.telling.ends()

    def withdraw(self, operation: Operation) -> bool:
        """Take a pending one back, without a log; False if it has ended, or a taker heard of it. O(keys + items)."""
        if operation.outcome is not None or not self.telling.take_back(operation):
            return False
        operation.cancel()
        self._shared.totals.ended["cancelled"] += 1
        self._age(operation)
        self._remove(operation)
        return True

    def ended(self, operation: Operation) -> None:
        """Keep an operation that has just ended for its time. O(its signals)."""
        shared, state = self._shared, STATES[operation.outcome]
        operation.ended_us = shared.clock.now_us
        shared.totals.ended[state] = shared.totals.ended.get(state, 0) + 1
        shared.effects.append(OperationEnded(operation))
        self.keep(operation)
        self.telling.ended(operation)

    def keep(self, operation: Operation) -> None:
        """Put an operation that was pending until now among those that ended before. O(its signals)."""
        self._age(operation)
        keep_us = operation.keep_us
        if keep_us is None:
            self.ended_ones.append(operation)
        else:
            self.answers.keep(operation.position, operation.ended_us + keep_us, operation)

    def make_room(self) -> bool:
        """Forget the operation that ended first; False if only the newest is left, whose client has yet to read it."""
        if len(self.ended_ones) <= 1:
            return False
        self._forget(self.ended_ones.popleft(), self._shared.clock.now_us)
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
            self._forget(self.ended_ones.popleft(), max(whole_ms(next_us), self._shared.before_us))
        return whole_us

    def forget_kept(self, whole_us: int) -> int:
        """Do as `forget` for what was kept for a time of its own, and for the ids after that."""
        answers = self.answers
        for _ in range(AT_ONCE):
            first = answers.ended.first
            if first is None or first[0] > whole_us:
                return min(NEVER_US if first is None else first[0], answers.forget_ids(whole_us))
            operation = answers.ended.pop(first[1])
            self._forget(operation, max(whole_ms(first[0]), self._shared.before_us))
        return whole_us

    def let_go(self, operation: Operation) -> None:
        """Forget an operation that has ended, as its maker needs it no more. O(log n), or O(n) if it has no time."""
        if operation.keep_us is None:
            self.ended_ones.remove(operation)
        else:
            self.answers.ended.pop(operation.position)
        self._forget(operation, self._shared.clock.now_us)

    def remembered(self, operation_id: str) -> Gone | None:
        """Return what is remembered of a forgotten operation; None if there is nothing. O(1)."""
        gone = self.answers.ids.get(operation_id)
        if gone is None and operation_id in self.forgotten:
            return Gone(self.forgotten.get(operation_id))
        return gone

    def _forget(self, operation: Operation, at_us: int) -> None:
        idem = self._remove(operation)
        keep_us = operation.keep_us
        if keep_us is None:
            self.forgotten.add(operation.id, at_us, operation.owner)
        else:
            until_us = at_us + max(keep_us, self.retention_us)
            self.answers.remember(operation.id, until_us, Gone(operation.owner, *idem))

    def _no_longer_pending(self, operation: Operation) -> None:
        owner = operation.owner
        if owner is not None:
            self.pending_of[owner] -= 1
            if not self.pending_of[owner]:
                del self.pending_of[owner]

    def _age(self, operation: Operation) -> None:
        """Let a pending operation become history, with its result; or stay pinned, if it is kept for its own time."""
        kept, shown, need, ending = self.kept, operation.shown, operation.need, operation.ending
        owner, promise = operation.owner, operation.promise
        if isinstance(need, Voters):
            self.voting -= 1
            need.clear()
        self._no_longer_pending(operation)
        answer = length(operation.result) + (0 if ending is None else ending.size)
        if promise is not None:
            released = self.questions.end(operation, promise)
            operation.size -= released
            kept.pin(-released, owner)
        if operation.keep_us is not None:
            self.answers.size += operation.size
            operation.size += answer
            self.answers.pin(answer, owner)
            return
        kept.age(operation.size, owner)
        if answer:
            operation.size += answer
            kept.drop(-answer)
        if shown is not None:
            shown.unpin()

    def _remove(self, operation: Operation) -> tuple[str, str] | tuple[()]:
        """Drop an operation that has ended; return its Idempotency-Key and digest, if it has them."""
        shown = operation.shown
        if operation.keep_us is None:
            self.kept.drop(operation.size)
        else:
            self.answers.pin(-operation.size, operation.owner)
            if shown is not None:
                shown.unpin()
        if shown is not None:
            shown.let_go()
        del self.by_id[operation.id]
        self.questions.pop(operation.position, None)
        idem = self.idem_of.pop(operation.id, ())
        if idem:
            del self.by_idem[operation.owner, idem[0]]
        return idem
