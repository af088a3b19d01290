"""``/v1/operations/{id}/...``: complete, fail, answer, reschedule and forget operations."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.messages import Complete, Fail, Forget, PersonsAnswer, Reschedule
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.answers import (
    Change,
    answering,
    change,
    completing,
    failing,
    forget,
    rescheduling,
    view_of,
)
from purgatory_async.service.api.operations import id_of, operation_of, settled
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


def complete_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/complete``: complete an operation, whatever its need."""
    body, text = _begun(request, COMPLETE, optional=True)
    return _change(service, request, text, completing(service, body, request))


def fail_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/fail``: let an operation fail, with the reason."""
    body, text = _begun(request, FAIL)
    return _change(service, request, text, failing(body, request))


def answer_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/answer``: give a person's answer to the question of an operation."""
    body, text = _begun(request, ANSWER)
    return _change(service, request, text, answering(body, request))


def reschedule_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/reschedule``: move the deadline of a pending operation, from now on."""
    body, text = _begun(request, RESCHEDULE)
    return _change(service, request, text, rescheduling(service, body, request))


def forget_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/forget``: forget an operation that has ended, as its maker has what it needs."""
    _begun(request, FORGET, optional=True)

    def _forget(_: None) -> Given:
        return after(forget(service, id_of(request), request), lambda _: Answer(204))

    return after(service.caught_up(), _forget)


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
