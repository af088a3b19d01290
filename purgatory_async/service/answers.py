"""What requests ask of operations that are promises: to attach to one, answer it, move its deadline, or forget it.

As `Service`, it knows no HTTP. What has ended before is answered as it is; an equal answer again is no fault.
"""

from functools import partial

from msgspec import UnsetType

from purgatory_async.durable.documents import OperationView
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
from purgatory_async.service.contract import problems
from purgatory_async.service.contract.fitting import fitting
from purgatory_async.service.levels import propose
from purgatory_async.service.service import Service, Submission, accepted


def attach(
    service: Service, entry: entries.SubmitOperation, by: Guard, most: int | None
) -> Later[Submission]:
    """Submit an operation, or return the equal one that has its id. The state must have caught up.

    Args:
        service: Has the state.
        entry: The operation.
        by: Who submits it.
        most: As of `Service.submit`.

    Raises:
        Problem: As `Service.submit`; ``duplicate-id`` shows what differs, if the owner is the same; ``forgotten``.
    """
    service.check_accepting()
    found = _attached(service, entry)
    if found is not None:
        return found
    # At level 1 a submission of another worker in between is found by its refusal.
    entry.attach = service.fold.level > 1
    try:
        made = service.submit(entry, by, most)
    except problems.Problem as problem:
        return _again(service, entry, problem)
    return made if isinstance(made, Submission) else _made(service, entry, made)


async def _made(service: Service, entry: entries.SubmitOperation, coming: Later[Submission]) -> Submission:
    try:
        return await at_last(coming)
    except problems.Problem as problem:
        return _again(service, entry, problem)


def _again(service: Service, entry: entries.SubmitOperation, problem: problems.Problem) -> Submission:
    """Look again at what has the id, if that is why a submission was refused."""
    found = _attached(service, entry) if problem.kind is problems.Kind.DUPLICATE_ID else None
    if found is None:
        raise problem
    return found


def _attached(service: Service, entry: entries.SubmitOperation) -> Submission | None:
    """Return the operation that has the id; None if none has. Raises what refuses it."""
    known = attached(service.fold.operations, entry)
    if known is None:
        return None
    if isinstance(known, Attached):
        return Submission(service.find(known.id), attached=True)
    if isinstance(known, Different):
        raise problems.other_operation(_view(service, service.find(entry.id)), known.differs)
    accepted(service.fold, entry, Answer(known, (), 0))
    raise AssertionError(f"{known!r} must be a refusal")


def change(
    service: Service, operation: Operation, entry: entries.AnyAnswer | entries.RescheduleOperation, by: Guard
) -> Later[bool]:
    """Answer or reschedule an operation; return whether that was done before, by an equal request or answer.

    Raises:
        Problem: ``already-ended``, ``forgotten``, ``unknown-operation``, ``overloaded``, ``idempotency-mismatch`` or
            ``upgrade-pending``.
    """
    if operation.outcome is not None and isinstance(entry.idem, UnsetType):
        if not isinstance(entry, entries.RescheduleOperation) and is_answer_of(operation, *answer_of(entry)):
            return True
        raise _ended(service, operation, entry)
    service.records.check_trouble()
    return after(propose(service.state, entry, by), partial(_changed, service, operation, entry))


def forget(service: Service, operation: Operation, entry: entries.ForgetOperation, by: Guard) -> Later[None]:
    """Forget an operation that has ended; one that is forgotten stays so.

    Raises:
        Problem: ``pending`` or ``upgrade-pending``.
    """
    return after(propose(service.state, entry, by), partial(_forgotten, service, operation))


def _changed(
    service: Service,
    operation: Operation,
    entry: entries.AnyAnswer | entries.RescheduleOperation,
    given: Answer,
) -> bool:
    result = given.result
    if isinstance(result, Refused) and result.why == "already-ended":
        raise _ended(service, operation, entry)
    result = accepted(service.fold, entry, given)
    assert isinstance(result, Answered | Rescheduled), f"a change of an operation cannot give {result!r}"
    return result.replayed


def _ended(
    service: Service, operation: Operation, entry: entries.AnyAnswer | entries.RescheduleOperation
) -> problems.Problem:
    """Return the problem of a change of an operation that has ended; it shows how."""
    verb = "reschedule" if isinstance(entry, entries.RescheduleOperation) else "answer"
    return problems.already_ended(_view(service, operation), verb)


def _forgotten(service: Service, operation: Operation, given: Answer) -> None:
    if isinstance(given.result, Refused) and given.result.why == "pending":
        raise problems.pending(_view(service, operation))


def _view(service: Service, operation: Operation) -> OperationView:
    present = service.fold.operations.by_id.get(operation.id, operation)
    return fitting(present.view(service.state.now_us()))
