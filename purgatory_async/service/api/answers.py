"""``/v1/operations/{id}/...``: complete, fail, answer, reschedule and forget operations."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from purgatory_async.durable.documents import compact, kept, problems
from purgatory_async.durable.documents.asks import check_answer, check_by, given_comment
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.messages import Complete, Fail, Forget, PersonsAnswer, Reschedule
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.answers import change, forget
from purgatory_async.durable.verbs.submissions import deadline_of
from purgatory_async.service.api.operations import id_of, operation_of, settled, view_of
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, REPLAYED, Answer
from purgatory_async.service.http_service import HttpService

COMPLETE: Final = msgspec.json.Decoder(Complete)
FAIL: Final = msgspec.json.Decoder(Fail)
ANSWER: Final = msgspec.json.Decoder(PersonsAnswer)
RESCHEDULE: Final = msgspec.json.Decoder(Reschedule)
FORGET: Final = msgspec.json.Decoder(Forget)

B = TypeVar("B", bound=Struct)
Change = entries.AnyAnswer | entries.RescheduleOperation


def complete_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/complete``: complete an operation, whatever its need."""
    body, text = _begun(request, COMPLETE, optional=True)
    by = name_of(request, body.by)

    def _entry(operation: Operation) -> Change | entries.EndOperation:
        """Return the entry; at level 1, which has no names, as it was there."""
        result = kept(body.result)
        if service.fold.level == 1 and body.by is UNSET:
            return entries.EndOperation(id=operation.id, how="completed", result=result)
        return entries.CompleteOperation(id=operation.id, result=result, by=by)

    return _change(service, request, text, _entry)


def fail_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/fail``: let an operation fail, with the reason."""
    body, text = _begun(request, FAIL)
    error, by = compact(body.error), name_of(request, body.by)
    if bytes(error) == b"null":
        raise problems.invalid("/error", f"must be any JSON but null, got {bytes(error).decode()}")
    return _change(
        service, request, text, lambda operation: entries.FailOperation(id=operation.id, error=error, by=by)
    )


def answer_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/answer``: give a person's answer to the question of an operation."""
    body, text = _begun(request, ANSWER)
    by = name_of(request, body.by)

    def _entry(operation: Operation) -> Change:
        check_answer(UNSET if operation.promise is None else operation.promise.ask, body)
        return entries.AnswerOperation(
            id=operation.id,
            submitted=operation.position,
            choice=body.choice,
            comment=given_comment(body),
            by=by,
        )

    return _change(service, request, text, _entry)


def reschedule_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/reschedule``: move the deadline of a pending operation, from now on."""
    body, text = _begun(request, RESCHEDULE)
    if body.timeout is body.deadline is UNSET:
        raise problems.invalid("", f"must have a timeout or a deadline, null for none, got {text.decode()}")
    timeout_us, until_us = deadline_of(body.timeout, body.deadline, service.state.now_us)

    def _entry(operation: Operation) -> Change:
        _check_own(request, operation)
        return entries.RescheduleOperation(
            id=operation.id, timeout_us=timeout_us, until_us=until_us, maker=request.grant.bound_to
        )

    return _change(service, request, text, _entry)


def forget_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/forget``: forget an operation that has ended, as its maker has what it needs."""
    _begun(request, FORGET, optional=True)

    def _forget(_: None) -> Given:
        grant, operation_id = request.grant, id_of(request)
        gone = service.fold.operations.remembered(operation_id)
        if gone is not None and grant.sees_forgotten(gone.owner) and grant.may_change(gone.owner):
            return Answer(204)
        operation = operation_of(service, request)
        _check_own(request, operation)
        entry = entries.ForgetOperation(id=operation.id, maker=grant.bound_to)
        return after(forget(service, operation, entry, request), lambda _: Answer(204))

    return after(service.caught_up(), _forget)


def name_of(request: Request, given: str | UnsetType) -> str | None:
    """Return who answers: the token's owner, or what a token that may do all says.

    Raises:
        Problem: ``invalid`` at ``/by``.
    """
    grant = request.grant
    if isinstance(given, str):
        check_by(given)
        if Permission.ADMIN in grant.scopes:
            return given
    return grant.owner


def _begun(request: Request, decoder: msgspec.json.Decoder[B], *, optional: bool = False) -> tuple[B, bytes]:
    """Check a request, and return its body, decoded and as text."""
    request.check_accept(JSON)
    request.query()
    id_of(request)
    text = request.body()
    return decoded(text, decoder, optional=optional), text


def _change(
    service: HttpService,
    request: Request,
    text: bytes,
    entry_of: Callable[[Operation], Change | entries.EndOperation],
) -> Given:
    """Change an operation once, however often the request comes, and answer with it."""

    def _found(_: None) -> Given:
        operation = operation_of(service, request)
        entry = entry_of(operation)
        if isinstance(entry, entries.EndOperation):
            pending = service.end(entry, request) if operation.outcome is None else False
            return after(pending, lambda ended: _ended(service, operation, ended=ended))

        def _once(once: Repeatable) -> Given:
            entry.idem, entry.digest = once
            entry.owner = request.grant.owner
            return after(change(service, operation, entry, request), _changed)

        def _changed(replayed: bool) -> Given:
            return settled(service, operation, *((REPLAYED,) if replayed else ()))

        return after(request.repeatable(text, entry, service.state), _once)

    return after(service.caught_up(), _found)


def _ended(service: HttpService, operation: Operation, *, ended: bool) -> Given:
    if not ended:
        raise problems.already_ended(view_of(service, operation))
    return settled(service, operation)


def _check_own(request: Request, operation: Operation) -> None:
    """Check that the token may change an operation that it sees."""
    if not request.grant.may_change(operation.owner):
        raise problems.not_own("operation", operation.id, operation.owner)
