"""``/v1/operations`` and ``/v1/events``: submit, show, end, list and follow operations."""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec
from msgspec import UnsetType

from purgatory_async import Outcome
from purgatory_async.durable.documents import OperationView, kept
from purgatory_async.durable.fold.entries import EndOperation, SubmitOperation
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.shared import microseconds
from purgatory_async.durable.later import after
from purgatory_async.durations import checked_timeout
from purgatory_async.service.access.grants import Grant
from purgatory_async.service.api.holding import Awaited
from purgatory_async.service.api.long_lists import MAX_LISTED, check_list
from purgatory_async.service.api.paging import STEPS, limit_of, page_of
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request, decoded
from purgatory_async.service.contract import problems
from purgatory_async.service.contract.fitting import fitting
from purgatory_async.service.contract.messages import Complete, OperationList, Submit
from purgatory_async.service.contract.names import checked_id, checked_key, distinct_keys, new_id
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.contract.problems import Kind
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.requests import Otherwise, end_of
from purgatory_async.service.held.stream import EVENT_STREAM
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.records import Headers
from purgatory_async.web.waiting import Wait

SUBMIT: Final = msgspec.json.Decoder(Submit)
COMPLETE: Final = msgspec.json.Decoder(Complete)
_NO_LONGER_HELD: Final = frozenset({Kind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.OVERLOADED})
"""Why a submission may no longer be held. It was made, so it is answered: only requests that changed nothing are
refused."""

_PENDING: Final = frozenset({None, Outcome.CLOSED})
"""Outcomes of an operation that has not ended: it is closed with a state that was given up."""


def submit_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations``: submit an operation; with ``wait`` hold the request until it ends."""
    request.check_accept(JSON)
    query = request.query("full", "wait")
    wait, full = request.wait(query, service.settings.max_wait), query.switch("full")
    body = request.body()
    check_list(body, "keys", MAX_LISTED)
    order = decoded(body, SUBMIT)
    if wait.seconds:
        service.held.requests.check_limit()
    entry = _entry_of(order, request)
    return after(
        request.repeatable(body), lambda once: _submit(service, request, entry, once, wait, full=full)
    )


def _submit(
    service: HttpService,
    request: Request,
    entry: SubmitOperation,
    once: Repeatable,
    wait: Wait,
    *,
    full: bool,
) -> Given:
    entry.idem, entry.digest = once
    return after(
        service.submit(entry, request, request.grant.limits.max_pending),
        lambda made: after(
            service.records.record(made.operation),
            lambda headers: _submitted(
                service, request, made.operation, wait, (*wait.headers, *replayed(made), *headers), full=full
            ),
        ),
    )


def _submitted(
    service: HttpService, request: Request, operation: Operation, wait: Wait, headers: Headers, *, full: bool
) -> Given:
    """Answer a submission, once it has ended or its wait is over."""
    location = ("Location", f"{request.prefix}/v1/operations/{operation.id}")
    if operation.outcome is not None:
        return answer(201, _view(service, operation, full=full), location, *headers)
    if not wait.seconds:
        return answer(202, _view(service, operation, full=full), location, *headers)

    def _answer(present: Operation) -> Answer:
        view = _view(service, present, full=full)
        return (
            answer(202, view, location, *headers) if present.outcome is None else answer(200, view, *headers)
        )

    def _release(error: Exception) -> Answer | None:
        released = isinstance(error, problems.Problem) and error.kind in _NO_LONGER_HELD
        return _answer(operation) if released else None

    return _End(service, request, operation, wait, then=_answer, otherwise=_release).begin()


def read_operation(service: HttpService, request: Request) -> Given:
    """``GET /v1/operations/{id}``: show an operation; with ``wait`` hold the request until it ends."""
    request.check_accept(JSON)
    query = request.query("full", "wait")
    wait, full = request.wait(query, service.settings.max_wait), query.switch("full")
    return after(service.caught_up(), lambda _: _read(service, request, wait, full=full))


def _read(service: HttpService, request: Request, wait: Wait, *, full: bool) -> Given:
    operation = _find(service, request)
    request.use(*operation.watch_keys)

    def _answer(present: Operation) -> Answer:
        return answer(200, _view(service, present, full=full), *wait.headers)

    if operation.outcome is not None or not wait.seconds:
        return _answer(operation)
    return _End(service, request, operation, wait, then=_answer).begin()


def complete_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/complete``: complete an operation, whatever its need."""
    request.check_accept(JSON)
    request.query()
    _id_of(request)
    body = decoded(request.body(), COMPLETE, optional=True)

    def _complete(_: None) -> Given:
        operation = _find(service, request)
        entry = EndOperation(id=operation.id, how="completed", result=kept(body.result))
        pending = service.end(entry, request) if operation.outcome is None else False
        return after(pending, lambda ended: _ended(service, operation, ended=ended))

    return after(service.caught_up(), _complete)


def _ended(service: HttpService, operation: Operation, *, ended: bool) -> Given:
    if not ended:
        raise problems.already_ended(_view(service, operation))
    return _settled(service, operation)


def _settled(service: HttpService, operation: Operation) -> Given:
    """Answer with an operation once its end is recorded."""
    return after(service.records.settle(), lambda headers: answer(200, _view(service, operation), *headers))


def cancel_operation(service: HttpService, request: Request) -> Given:
    """``DELETE /v1/operations/{id}``: cancel an operation; no effect once it has ended."""
    request.check_accept(JSON)
    request.query()

    def _cancel(_: None) -> Given:
        operation = _find(service, request)
        if not request.grant.may_change(operation.owner):
            raise problems.not_own("operation", operation.id, operation.owner)
        if operation.outcome is not None:
            return answer(200, _view(service, operation))
        # It may have ended meanwhile, by an entry before this one: then its view shows how.
        entry = EndOperation(id=operation.id, how="cancelled", owner=request.grant.bound_to)
        return after(service.end(entry, request), lambda _: _settled(service, operation))

    return after(service.caught_up(), _cancel)


async def list_operations(service: HttpService, request: Request) -> Answer:
    """``GET /v1/operations``: list pending operations, oldest first, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "key", "limit")
    limit = limit_of(query)
    # The cursor is a place in the order of submission, so it stays valid when operations end.
    behind = query.integer("cursor", 0, 2**63 - 1) or 0
    keys = query.keys()
    key = checked_key(keys[0]) if keys else None
    request.use_listed(key)
    await service.state.caught_up()
    pending = await _seen(service, key, behind, limit + 1, request.grant)
    return answer(200, _page(service, pending, limit))


def read_events(service: HttpService, request: Request) -> Given:
    """``GET /v1/events``: a stream of server-sent events, from now on or from behind ``Last-Event-ID``."""
    request.check_accept(EVENT_STREAM)
    request.query()
    last = request.header("last-event-id")
    try:
        last_read = None if last is None else service.held.feed.number_of(last)
    except ValueError:
        raise problems.bad_header(
            "Last-Event-ID", "the id of an event, EPOCH-POSITION.NUMBER", last or ""
        ) from None
    request.use_listed()
    return service.held.streams.stream(request, last_read, request.grant.prefixes)


async def _seen(
    service: HttpService, key: str | None, behind: int, count: int, grant: Grant
) -> list[Operation]:
    """Return the first pending operations behind a place that a token may see."""
    found: list[Operation] = []
    # A token with prefixes may see few of very many: they are looked at in passes of a millisecond.
    step = STEPS if grant.prefixes else count
    while len(found) < count and (some := list(islice(service.listed(key, behind), step))):
        found += [operation for operation in some if grant.covers_all(operation.watch_keys)]
        behind = some[-1].position
        if not grant.prefixes:
            break
        await asyncio.sleep(0)
    return found


def _page(service: HttpService, pending: list[Operation], limit: int) -> OperationList:
    now_us = service.state.now_us()
    return OperationList(
        *page_of(
            pending,
            limit,
            lambda operation: msgspec.Raw(msgspec.json.encode(fitting(operation.view(now_us)))),
            lambda operation: str(operation.position),
        )
    )


class _End(Awaited):
    """The end of an operation, which may be another object once the state was loaded again."""

    __slots__ = ("_operation", "_then")

    def __init__(
        self,
        service: HttpService,
        request: Request,
        operation: Operation,
        wait: Wait,
        *,
        then: Callable[[Operation], Given],
        otherwise: Otherwise | None = None,
    ) -> None:
        super().__init__(service, request, end_of(operation), wait, otherwise)
        self._operation = operation
        self._then = then

    def look(self) -> Given | None:
        """Go on with the operation, if it has ended."""
        present = _present(self.service, self._operation)
        return None if present.outcome in _PENDING else self._then(present)

    def over(self) -> Given:
        """Go on with the operation as it is."""
        present = _present(self.service, self._operation)
        lost = present.outcome is Outcome.CLOSED
        return self._then(self.service.find(present.id) if lost else present)


def _present(service: HttpService, operation: Operation) -> Operation:
    """Return an operation as in the present state; as closed if only a state that was given up had it."""
    return service.fold.operations.by_id.get(operation.id, operation)


def _find(service: HttpService, request: Request) -> Operation:
    return service.find(_id_of(request), request.grant)


def _id_of(request: Request) -> str:
    raw = request.parameters["id"]
    try:
        return percent_decoded(raw)
    except ValueError:
        raise problems.unknown_operation(raw.decode("ascii", "backslashreplace")) from None


def _view(service: HttpService, operation: Operation, *, full: bool = False) -> OperationView:
    view = operation.view(service.state.now_us())
    return view if full else fitting(view)


def _entry_of(order: Submit, request: Request) -> SubmitOperation:
    """Check a decoded body, and return its entry.

    Raises:
        Problem: ``invalid``, ``bad-key`` or ``too-many-keys``; ``forbidden`` for a key outside the token's prefixes.
    """
    if not order.keys:
        raise problems.invalid("/keys", f"must name at least one key, got {order.keys!r}")
    if len(order.keys) > MAX_LISTED:  # repeated ones included
        raise problems.invalid("/keys", f"Expected `array` of length <= {MAX_LISTED}")
    keys = distinct_keys(order.keys)
    try:
        timeout = checked_timeout(order.timeout)
    except ValueError as error:
        raise problems.invalid("/timeout", str(error)) from None
    operation_id = new_id() if isinstance(order.id, UnsetType) else checked_id(order.id)
    request.use(*keys)
    return SubmitOperation(
        id=operation_id,
        keys=keys,
        need=order.need,
        timeout_us=None if timeout is None else microseconds(timeout),
        data=kept(order.data),
        owner=request.grant.owner,
        quota=request.grant.quota,
    )
