"""What requests ask of operations that are promises: to attach to one, answer it, move its deadline, or forget it.

What has ended before is answered as it is; an equal answer again is no fault.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import OperationView, compact, kept, problems
from purgatory_async.durable.documents.asks import check_answer, check_by, given_comment
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.fitting import fitting
from purgatory_async.durable.documents.messages import Complete, Fail, Forget, PersonsAnswer, Reschedule
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
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.state import Answer, Guard
from purgatory_async.durable.verbs.keeper import Keeper, Submission, accepted
from purgatory_async.durable.verbs.levels import propose
from purgatory_async.durable.verbs.links import ask_of
from purgatory_async.durable.verbs.submissions import deadline_of

_COMPLETE: Final = msgspec.json.Decoder(Complete)
_FAIL: Final = msgspec.json.Decoder(Fail)
_ANSWER: Final = msgspec.json.Decoder(PersonsAnswer)
_RESCHEDULE: Final = msgspec.json.Decoder(Reschedule)
_FORGET: Final = msgspec.json.Decoder(Forget)

Change = entries.AnyAnswer | entries.RescheduleOperation
EntryOf = Callable[[Operation], Change]
"""Makes the entry that changes an operation, once that is found."""


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
        raise problems.other_operation(view_of(keeper, keeper.find(entry.id)), known.differs)
    accepted(keeper.fold, entry, Answer(known, (), 0))
    raise AssertionError(f"{known!r} must be a refusal")


def change(keeper: Keeper, operation: Operation, entry: Change, by: Guard) -> Later[bool]:
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


def check_forget(text: bytes) -> None:
    """Check the body of a request to forget; raises ``malformed`` or ``invalid``."""
    decoded(text, _FORGET, optional=True)


def forget(keeper: Keeper, operation_id: str, by: Guard) -> Later[None]:
    """Forget an operation that has ended; one that is forgotten stays so. The state must have caught up.

    Raises:
        Problem: ``unknown-operation``, ``forbidden``, ``pending`` or ``upgrade-pending``.
    """
    grant = by.grant
    gone = keeper.fold.operations.remembered(operation_id)
    if gone is not None and grant.sees_forgotten(gone.owner) and grant.may_change(gone.owner):
        return None
    operation = keeper.find(operation_id, grant)
    check_own(operation, by)
    entry = entries.ForgetOperation(id=operation.id, maker=grant.bound_to)
    return after(propose(keeper.state, entry, by), partial(_forgotten, keeper, operation))


def cancel(keeper: Keeper, operation: Operation, by: Guard) -> Later[object]:
    """Cancel an operation; one that has ended does not change.

    Raises:
        Problem: ``forbidden`` or ``overloaded``.
    """
    check_own(operation, by)
    if operation.outcome is not None:
        return None
    # It may have ended meanwhile, by an entry before this one: then its view shows how.
    return keeper.end(entries.EndOperation(id=operation.id, how="cancelled", owner=by.grant.bound_to), by)


def completing(
    keeper: Keeper, text: bytes, by: Guard
) -> Callable[[Operation], Change | entries.EndOperation]:
    """Return how an operation is completed, whatever its need; at level 1, which has no names, as it was there.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    body = decoded(text, _COMPLETE, optional=True)
    result, name = kept(body.result), name_of(by, body.by)

    def _entry(operation: Operation) -> Change | entries.EndOperation:
        if keeper.fold.level == 1 and body.by is UNSET:
            return entries.EndOperation(id=operation.id, how="completed", result=result)
        return entries.CompleteOperation(id=operation.id, result=result, by=name)

    return _entry


def failing(text: bytes, by: Guard) -> EntryOf:
    """Return how an operation fails, with the reason.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    body = decoded(text, _FAIL)
    error, name = compact(body.error), name_of(by, body.by)
    if bytes(error) == b"null":
        raise problems.invalid("/error", f"must be any JSON but null, got {bytes(error).decode()}")
    return lambda operation: entries.FailOperation(id=operation.id, error=error, by=name)


def answering(text: bytes, by: Guard) -> EntryOf:
    """Return how the question of an operation is answered; it raises ``invalid`` if the answer does not fit.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    body = decoded(text, _ANSWER)
    name = name_of(by, body.by)

    def _entry(operation: Operation) -> Change:
        check_answer(ask_of(operation), body)
        return entries.AnswerOperation(
            id=operation.id,
            submitted=operation.position,
            choice=body.choice,
            comment=given_comment(body),
            by=name,
        )

    return _entry


def rescheduling(keeper: Keeper, text: bytes, by: Guard) -> EntryOf:
    """Return how the deadline of a pending operation is moved, from now on; it raises as `check_own`.

    Raises:
        Problem: ``invalid``.
    """
    body = decoded(text, _RESCHEDULE)
    if body.timeout is body.deadline is UNSET:
        raise problems.invalid("", f"must have a timeout or a deadline, null for none, got {text.decode()}")
    timeout_us, until_us = deadline_of(body.timeout, body.deadline, keeper.state.now_us)

    def _entry(operation: Operation) -> Change:
        check_own(operation, by)
        return entries.RescheduleOperation(
            id=operation.id, timeout_us=timeout_us, until_us=until_us, maker=by.grant.bound_to
        )

    return _entry


def name_of(by: Guard, given: str | UnsetType) -> str | None:
    """Return who answers: the owner, or what one that may do all says.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    grant = by.grant
    if isinstance(given, str):
        check_by(given)
        if Permission.ADMIN in grant.scopes:
            return given
    return grant.owner


def check_own(operation: Operation, by: Guard) -> None:
    """Check that an operation that is seen may be changed, too.

    Raises:
        Problem: ``forbidden``.
    """
    if not by.grant.may_change(operation.owner):
        raise problems.not_own("operation", operation.id, operation.owner)


def _changed(
    keeper: Keeper,
    operation: Operation,
    entry: Change,
    given: Answer,
) -> bool:
    result = given.result
    if isinstance(result, Refused) and result.why == "already-ended":
        raise _ended(keeper, operation, entry)
    result = accepted(keeper.fold, entry, given)
    assert isinstance(result, Answered | Rescheduled), f"a change of an operation cannot give {result!r}"
    return result.replayed


def _ended(keeper: Keeper, operation: Operation, entry: Change) -> problems.Problem:
    """Return the problem of a change of an operation that has ended; it shows how."""
    verb = "reschedule" if isinstance(entry, entries.RescheduleOperation) else "answer"
    return problems.already_ended(view_of(keeper, operation), verb)


def _forgotten(keeper: Keeper, operation: Operation, given: Answer) -> None:
    if isinstance(given.result, Refused) and given.result.why == "pending":
        raise problems.pending(view_of(keeper, operation))


def as_present(keeper: Keeper, operation: Operation) -> Operation:
    """Return an operation as in the present state; as closed if only a state that was given up had it."""
    return keeper.fold.operations.by_id.get(operation.id, operation)


def view_of(keeper: Keeper, operation: Operation, *, full: bool = False) -> OperationView:
    """Return an operation as answers show it, with all signals if it is ``full``."""
    view = as_present(keeper, operation).view(keeper.state.now_us())
    return view if full else fitting(view)
