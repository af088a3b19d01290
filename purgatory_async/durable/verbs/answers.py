"""What requests ask of operations that are promises: to attach to one, answer it, move its deadline, or forget it.

What has ended before is answered as it is; an equal answer again is no fault.
"""

from functools import partial

from msgspec import UnsetType

from purgatory_async.durable.documents import OperationView, problems
from purgatory_async.durable.documents.fitting import fitting
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.operation_rules import answer_of, attached, is_answer_of
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.results import (
    Answered,
    Attached,
    Different,
    Refused,
    Rescheduled,
)
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.state import Answer, Guard
from purgatory_async.durable.verbs.keeper import Keeper, Submission, accepted
from purgatory_async.durable.verbs.levels import propose


def attach(keeper: Keeper, entry: entries.SubmitOperation, by: Guard, most: int | None) -> Later[Submission]:
    """Submit an operation, or return the equal one that has its id. The state must have caught up.

    Args:
        keeper: Has the state.
        entry: The operation.
        by: Who submits it.
        most: As of `Keeper.submit`.

    Raises:
        Problem: As `Keeper.submit`; ``duplicate-id`` shows what differs, if the owner is the same; ``forgotten``.
    """
    keeper.check_accepting()
    found = _attached(keeper, entry)
    if found is not None:
        return found
    # At level 1 a submission of another worker in between is found by its refusal.
    entry.attach = keeper.fold.level > 1
    try:
        made = keeper.submit(entry, by, most)
    except problems.Problem as problem:
        return _again(keeper, entry, problem)
    return made if isinstance(made, Submission) else _made(keeper, entry, made)


async def _made(keeper: Keeper, entry: entries.SubmitOperation, coming: Later[Submission]) -> Submission:
    try:
        return await at_last(coming)
    except problems.Problem as problem:
        return _again(keeper, entry, problem)


def _again(keeper: Keeper, entry: entries.SubmitOperation, problem: problems.Problem) -> Submission:
    """Look again at what has the id, if that is why a submission was refused."""
    found = _attached(keeper, entry) if problem.kind is problems.Kind.DUPLICATE_ID else None
    if found is None:
        raise problem
    return found


def _attached(keeper: Keeper, entry: entries.SubmitOperation) -> Submission | None:
    """Return the operation that has the id; None if none has. Raises what refuses it."""
    known = attached(keeper.fold.operations, entry)
    if known is None:
        return None
    if isinstance(known, Attached):
        return Submission(keeper.find(known.id), attached=True)
    if isinstance(known, Different):
        raise problems.other_operation(_view(keeper, keeper.find(entry.id)), known.differs)
    accepted(keeper.fold, entry, Answer(known, (), 0))
    raise AssertionError(f"{known!r} must be a refusal")


def change(
    keeper: Keeper, operation: Operation, entry: entries.AnyAnswer | entries.RescheduleOperation, by: Guard
) -> Later[bool]:
    """Answer or reschedule an operation; return whether that was done before, by an equal request or answer.

    Raises:
        Problem: ``already-ended``, ``forgotten``, ``unknown-operation``, ``overloaded``, ``idempotency-mismatch`` or
            ``upgrade-pending``.
    """
    if operation.outcome is not None and isinstance(entry.idem, UnsetType):
        if not isinstance(entry, entries.RescheduleOperation) and is_answer_of(operation, *answer_of(entry)):
            return True
        raise _ended(keeper, operation, entry)
    keeper.check_change()
    return after(propose(keeper.state, entry, by), partial(_changed, keeper, operation, entry))


def forget(keeper: Keeper, operation: Operation, entry: entries.ForgetOperation, by: Guard) -> Later[None]:
    """Forget an operation that has ended; one that is forgotten stays so.

    Raises:
        Problem: ``pending`` or ``upgrade-pending``.
    """
    return after(propose(keeper.state, entry, by), partial(_forgotten, keeper, operation))


def _changed(
    keeper: Keeper,
    operation: Operation,
    entry: entries.AnyAnswer | entries.RescheduleOperation,
    given: Answer,
) -> bool:
    result = given.result
    if isinstance(result, Refused) and result.why == "already-ended":
        raise _ended(keeper, operation, entry)
    result = accepted(keeper.fold, entry, given)
    assert isinstance(result, Answered | Rescheduled), f"a change of an operation cannot give {result!r}"
    return result.replayed


def _ended(
    keeper: Keeper, operation: Operation, entry: entries.AnyAnswer | entries.RescheduleOperation
) -> problems.Problem:
    """Return the problem of a change of an operation that has ended; it shows how."""
    verb = "reschedule" if isinstance(entry, entries.RescheduleOperation) else "answer"
    return problems.already_ended(_view(keeper, operation), verb)


def _forgotten(keeper: Keeper, operation: Operation, given: Answer) -> None:
    if isinstance(given.result, Refused) and given.result.why == "pending":
        raise problems.pending(_view(keeper, operation))


def _view(keeper: Keeper, operation: Operation) -> OperationView:
    present = keeper.fold.operations.by_id.get(operation.id, operation)
    return fitting(present.view(keeper.state.now_us()))
