"""The rules for operations: which submissions and ends they refuse, and what a repeated request is answered."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import Attached
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.kept_bytes import (
    ANSWER_BYTES,
    length,
    size_of_operation,
    size_of_voter,
)
from purgatory_async.durable.fold.kept_signals import KeptSignals
from purgatory_async.durable.fold.operations import Operation, Operations
from purgatory_async.durable.fold.promises import (
    Ending,
    Promise,
    answer_text,
    end_item,
    size_of_item,
    size_of_promise,
    submit_item,
)
from purgatory_async.durable.fold.queues import Queues
from purgatory_async.durable.fold.replays import Repeatable, Replays
from purgatory_async.durable.fold.results import (
    APPLIED,
    OVER_BUDGET,
    OVERLOADED,
    Answered,
    Refused,
    Rescheduled,
    Result,
    Submitted,
)
from purgatory_async.durable.fold.same import differing, same_json, terms_of
from purgatory_async.durable.fold.shared import NO_LIMIT, Shared
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.durable.since import Wanted, kept_since


class Earlier(NamedTuple):
    """Signals that count in the step of a submission, and whether one may be missing."""

    signals: Sequence[Signal] = ()
    gap: bool = False


NONE_EARLIER: Final = Earlier()


class OperationRules:
    """Applies what happens to operations, but signals.

    An Idempotency-Key means one request of its owner, whatever it asked for: an operation has it as long as the
    operation is known, a take as long as it is in line or has leases, any other answer is among the replays.

    Args:
        operations, signals, queues, replays, shared: The parts of the fold.
    """

    def __init__(
        self,
        operations: Operations,
        signals: KeptSignals,
        queues: Queues,
        replays: Replays,
        shared: Shared,
    ) -> None:
        self._operations: Final = operations
        self._signals: Final = signals
        self._queues: Final = queues
        self._replays: Final = replays
        self._shared: Final = shared
        self.by_kind: Final[dict[type[kinds.Entry], Callable[[Any], Result]]] = {
            kinds.SubmitOperation: self._submit,
            kinds.EndOperation: self._end,
            **dict.fromkeys(get_args(kinds.AnyAnswer), self._answer),
            kinds.RescheduleOperation: self._reschedule,
            kinds.ForgetOperation: self._forget,
        }

    # Submissions.

    def _submit(self, entry: kinds.SubmitOperation) -> Result:
        operations = self._operations
        known = attached(operations, entry) if entry.attach else None
        if known is None and isinstance(entry.idem, str):
            known = self._replayed_submission(entry, entry.idem)
        if known is not None:
            return known
        earlier = NONE_EARLIER if entry.since is UNSET else self._earlier(entry)
        promise = Promise.of(entry) if entry.promises else None
        refused = self._refused_submission(entry, earlier, promise)
        if refused is not None:
            return refused
        operation = operations.submit(entry, promise)
        if earlier is not NONE_EARLIER:
            self._catch_up(operation, earlier)
        if entry.timeout_us == 0 or promise is not None:
            clock = self._shared.clock
            clock.advance_to(clock.now_us)
        return Submitted(operation.id, operation.state)

    def _replayed_submission(self, entry: kinds.SubmitOperation, idem: str) -> Result | None:
        """Return what answers a submission with a known Idempotency-Key; None for a new one."""
        operations, key = self._operations, (entry.owner, idem)
        known, forgotten = operations.by_idem.get(key), operations.answers.by_idem.get(key)
        if known is not None and operations.idem_of[known.id][1] == entry.digest:
            return Submitted(known.id, known.state, replayed=True)
        if forgotten is not None:
            gone = operations.answers.ids.get(forgotten)
            return Refused("forgotten" if gone and gone.digest == entry.digest else "idempotency-mismatch")
        taken = known is not None or key in self._replays or key in self._queues.leases.takes
        return Refused("idempotency-mismatch") if taken else None

    def _refused_submission(
        self, entry: kinds.SubmitOperation, earlier: Earlier, promise: Promise | None
    ) -> Refused | None:
        operations = self._operations
        if entry.id in operations.by_id:
            return Refused("duplicate-id")
        if operations.purgatory.pending >= self._shared.limits.max_pending:
            return OVERLOADED
        if entry.most is not UNSET and operations.pending_of.get(entry.owner or "", 0) >= entry.most:
            return Refused("limited")
        if promise is None and earlier is NONE_EARLIER and self._shared.fits_any(entry):
            return None
        if self._full_queue(entry):
            return Refused("queue-full")
        return self._shared.refusal(entry, *self._growth(entry, earlier))

    def _full_queue(self, entry: kinds.SubmitOperation) -> bool:
        """Whether a queue that is to hear of an operation has no room for the item."""
        has_room = self._queues.has_room
        return (isinstance(entry.announce, str) and not has_room(entry.announce, submit_item(entry.id))) or (
            isinstance(entry.deliver, str) and not has_room(entry.deliver, end_item(entry.id, "completed"))
        )

    def _growth(self, entry: kinds.SubmitOperation, earlier: Earlier) -> tuple[int, int]:
        """Return how many bytes a submission pins at most: for all owners, and for its own."""
        growth = own = size_of_operation(entry) + size_of_promise(entry)
        if isinstance(entry.announce, str):
            item = size_of_item(entry.announce, submit_item(entry.id))
            growth, own = growth + item, own + item
        if earlier.signals:
            part = Batch(earlier.signals).on(entry.keys)
            shown = [signal for signal in part.latest(None) if not signal.pins]
            growth += sum(signal.size for signal in shown)
            own += sum(signal.size for signal in shown if signal.owner == entry.owner)
            if not isinstance(entry.need, str) and isinstance(entry.need.voters, int):
                voters = sum(map(size_of_voter, part.voters))
                growth, own = growth + voters, own + voters
        return growth, own

    def _earlier(self, entry: kinds.SubmitOperation) -> Earlier:
        """Return the kept signals after the place that a submission names; none for one of another history."""
        since = 0 if isinstance(entry.since, UnsetType) else entry.since
        if since > self._signals.highest:
            return Earlier(gap=True)
        return Earlier(*kept_since(self._signals, Wanted(entry.keys, ()), since, NO_LIMIT))

    def _catch_up(self, operation: Operation, earlier: Earlier) -> None:
        """Let a new operation count signals that happened before it."""
        if earlier.gap:
            operation.promised().gap = True
        if earlier.signals and operation.take(Batch(earlier.signals)) is not None:
            operation.force_complete(UNSET)
            self._operations.telling.ends()

    # Ends.

    def _end(self, entry: kinds.EndOperation) -> Result:
        operation = self._found(entry.id, entry.owner)
        if isinstance(operation, Refused):
            return operation
        if operation.outcome is not None:
            return Refused("already-ended")
        self._operations.end(operation, entry.how, entry.result)
        return results.Ended(entry.how)

    def _answer(self, entry: kinds.AnyAnswer) -> Result:
        result, ending = answer_of(entry)
        earlier = self.replayed(entry)
        if earlier is not None:
            return earlier
        operation = self._found(entry.id, None, entry.submitted)
        if isinstance(operation, Refused):
            return operation
        repeated = operation.outcome is not None
        if repeated and not is_answer_of(operation, result, ending):
            return Refused("already-ended")
        if not repeated:
            more = length(result) + ending.size - ANSWER_BYTES
            if operation.keep_us is not None and more > 0 and not self._shared.fits(more):
                return OVER_BUDGET
            self._operations.answer(operation, result, ending)
        answer = Answered(operation.state)
        self._replays.keep(entry, answer)
        return Answered(operation.state, replayed=True) if repeated else answer

    # Deadlines and memory.

    def _reschedule(self, entry: kinds.RescheduleOperation) -> Result:
        earlier = self.replayed(entry)
        if earlier is not None:
            return earlier
        operation, clock = self._found(entry.id, entry.maker), self._shared.clock
        if isinstance(operation, Refused):
            return operation
        if operation.outcome is not None:
            return Refused("already-ended")
        deadline_us: int | UnsetType | None = entry.until_us
        if isinstance(deadline_us, UnsetType):
            deadline_us = None if entry.timeout_us is None else clock.now_us + entry.timeout_us
        self._operations.reschedule(operation, deadline_us)
        clock.advance_to(clock.now_us)
        answer = Rescheduled(deadline_us)
        self._replays.keep(entry, answer)
        return answer

    def _forget(self, entry: kinds.ForgetOperation) -> Result:
        operation = self._found(entry.id, entry.maker)
        if isinstance(operation, Refused):
            return operation
        if operation.outcome is None:
            return Refused("pending")
        self._operations.let_go(operation)
        return APPLIED

    # What is known already.

    def _found(self, operation_id: str, owner: str | None, submitted: int = 0) -> Operation | Refused:
        """Return an operation, of an owner if one is named, and of a submission at a position; or a refusal."""
        operations = self._operations
        operation = operations.by_id.get(operation_id)
        if operation is None:
            return Refused("forgotten" if operations.remembered(operation_id) else "unknown-operation")
        if owner not in {None, operation.owner}:
            return Refused("unknown-operation")
        return operation if submitted in {0, operation.position} else Refused("forgotten")

    def replayed(self, entry: Repeatable) -> Result | None:
        """Return an earlier answer to an entry with its Idempotency-Key, or a refusal; None for a new one. O(1)."""
        if not isinstance(entry.idem, str):
            return None
        key = (entry.owner, entry.idem)
        known, operations = self._replays.get(key), self._operations
        if known is None:
            taken = (
                key in operations.by_idem
                or key in operations.answers.by_idem
                or key in self._queues.leases.takes
            )
            return Refused("idempotency-mismatch") if taken else None
        if known.digest != entry.digest:
            return Refused("idempotency-mismatch")
        return msgspec.structs.replace(known.answer, replayed=True)


def attached(operations: Operations, entry: kinds.SubmitOperation) -> Result | None:
    """Return what answers a submission that may attach to a known operation; None if its id is free. O(its bytes).

    A forgotten id is not free: what was asked under it would be asked again.
    """
    operation = operations.by_id.get(entry.id)
    if operation is None:
        gone = operations.remembered(entry.id)
        if gone is None:
            return None
        return Refused("forgotten" if gone.owner == entry.owner else "duplicate-id")
    if operation.owner != entry.owner:
        return Refused("duplicate-id")
    differs = differing(operation.terms, terms_of(entry))
    return results.Different(differs) if differs else results.Attached(operation.id, operation.state)


def answer_of(entry: kinds.AnyAnswer) -> tuple[Attached, Ending]:
    """Return the result that an answer brings, and the ending of its operation. O(1)."""
    match entry:
        case kinds.CompleteOperation():
            return entry.result, Ending("complete", entry.by, entry.via)
        case kinds.FailOperation():
            return UNSET, Ending("fail", entry.by, entry.via, entry.error)
        case kinds.AnswerOperation():
            return answer_text(entry.choice, entry.comment), Ending("answer", entry.by, entry.via)


def is_answer_of(operation: Operation, result: Attached, ending: Ending) -> bool:
    """Whether an operation has ended by an equal answer: of the same kind, with the same result, by the same one."""
    before = operation.ending
    if before is None or (before.how, before.by) != (ending.how, ending.by):
        return False
    ours = UNSET if operation.result is None else operation.result
    return same_json(ours, result) and same_json(before.error, ending.error)
