"""``/v1/operations/{id}/...``: complete, fail, answer, reschedule and forget operations."""

from collections.abc import Callable

from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.answers import (
    Change,
    answering,
    change,
    check_forget,
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


def complete_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/complete``: complete an operation, whatever its need."""
    text = _begun(request)
    return _change(service, request, text, completing(service, text, request))


def fail_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/fail``: let an operation fail, with the reason."""
    text = _begun(request)
    return _change(service, request, text, failing(text, request))


def answer_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/answer``: give a person's answer to the question of an operation."""
    text = _begun(request)
    return _change(service, request, text, answering(text, request))


def reschedule_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/reschedule``: move the deadline of a pending operation, from now on."""
    text = _begun(request)
    return _change(service, request, text, rescheduling(service, text, request))


def forget_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/forget``: forget an operation that has ended, as its maker has what it needs."""
    check_forget(_begun(request))

    def _forget(_: None) -> Given:
        return after(forget(service, id_of(request), request), lambda _: Answer(204))

    return after(service.caught_up(), _forget)


def _begun(request: Request) -> bytes:
    """Check a request, and return its body."""
    request.check_accept(JSON)
    request.query()
    id_of(request)
    return request.body()


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
