"""``/v1/operations`` and ``/v1/events``: submit, show, end, list and follow operations."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import UnsetType

from purgatory_async import Outcome
from purgatory_async.durable.documents import OperationView
from purgatory_async.durable.fold.entries import EndOperation, SubmitOperation
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import after
from purgatory_async.service.answers import attach
from purgatory_async.service.api.holding import Awaited
from purgatory_async.service.api.long_lists import MAX_LISTED, check_list
from purgatory_async.service.api.paging import STEPS, first_of, limit_of, page_of
from purgatory_async.service.api.repeating import Repeatable, meaning_of
from purgatory_async.service.api.request import Request, decoded
from purgatory_async.service.api.submissions import entry_of
from purgatory_async.service.contract import problems
from purgatory_async.service.contract.fitting import fitting
from purgatory_async.service.contract.messages import Attach, OperationList, Submit
from purgatory_async.service.contract.names import checked_id, checked_key, new_id
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.contract.problems import Kind
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.requests import Otherwise, end_of
from purgatory_async.service.held.stream import EVENT_STREAM
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.records import Headers
from purgatory_async.service.service import Submission
from purgatory_async.web.waiting import Wait

SUBMIT: Final = msgspec.json.Decoder(Submit)
ATTACH: Final = msgspec.json.Decoder(Attach)
ATTACHED: Final = ("X-Purgatory-Attached", "true")
_NO_LONGER_HELD: Final = frozenset({Kind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.OVERLOADED})
"""Why a submission may no longer be held. It was made, so it is answered: only requests that changed nothing are
refused."""

_POSITION: Final = attrgetter("position")
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
    operation_id = new_id() if isinstance(order.id, UnsetType) else checked_id(order.id)

    def _submit(_: None) -> Given:
        entry = entry_of(order, operation_id, service, request)
        drawn = () if isinstance(order.id, str) else ("id",)
        meaning = meaning_of(entry, service.fold.level, *drawn)
        return after(request.repeatable(body, meaning), partial(_make, entry))

    def _make(entry: SubmitOperation, once: Repeatable) -> Given:
        entry.idem, entry.digest = once
        return after(service.submit(entry, request, request.grant.limits.max_pending), _made)

    def _made(made: Submission) -> Given:
        return _recorded(service, request, made, wait, full=full)

    # Only the state tells which history a place is of.
    ready = None if isinstance(order.since, UnsetType) else service.caught_up()
    return after(ready, _submit)


def attach_operation(service: HttpService, request: Request) -> Given:
    """``PUT /v1/operations/{id}``: submit an operation, or attach to the equal one; hold with ``wait``."""
    request.check_accept(JSON)
    query = request.query("full", "wait")
    wait, full = request.wait(query, service.settings.max_wait), query.switch("full")
    operation_id = checked_id(id_of(request))
    body = request.body()
    check_list(body, "keys", MAX_LISTED)
    order = decoded(body, ATTACH)
    if wait.seconds:
        service.held.requests.check_limit()

    def _attach(_: None) -> Given:
        entry = entry_of(order, operation_id, service, request)
        most = request.grant.limits.max_pending
        return after(attach(service, entry, request, most), _attached)

    def _attached(made: Submission) -> Given:
        return _recorded(service, request, made, wait, full=full)

    return after(service.caught_up(), _attach)


def _recorded(service: HttpService, request: Request, made: Submission, wait: Wait, *, full: bool) -> Given:
    """Answer a submission once it is recorded; one that is attached to an operation has made nothing to record."""
    if made.attached:

        def _answer(present: Operation) -> Answer:
            return answer(200, view_of(service, present, full=full), *wait.headers, ATTACHED)

        if made.operation.outcome is not None or not wait.seconds:
            return _answer(made.operation)
        return _End(service, request, made.operation, wait, then=_answer).begin()
    return after(
        service.records.record(made.operation),
        lambda headers: _submitted(
            service, request, made.operation, wait, (*wait.headers, *replayed(made), *headers), full=full
        ),
    )


def _submitted(
    service: HttpService, request: Request, operation: Operation, wait: Wait, headers: Headers, *, full: bool
) -> Given:
    """Answer a submission, once it has ended or its wait is over."""
    location = ("Location", f"{request.prefix}/v1/operations/{operation.id}")
    if operation.outcome is not None:
        return answer(201, view_of(service, operation, full=full), location, *headers)
    if not wait.seconds:
        return answer(202, view_of(service, operation, full=full), location, *headers)

    def _answer(present: Operation) -> Answer:
        view = view_of(service, present, full=full)
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
    operation = operation_of(service, request)
    request.use(*operation.watch_keys)

    def _answer(present: Operation) -> Answer:
        return answer(200, view_of(service, present, full=full), *wait.headers)

    if operation.outcome is not None or not wait.seconds:
        return _answer(operation)
    return _End(service, request, operation, wait, then=_answer).begin()


def settled(service: HttpService, operation: Operation, *more: tuple[str, str]) -> Given:
    """Answer with an operation once its change is recorded."""
    return after(
        service.records.settle(),
        lambda headers: answer(200, view_of(service, as_present(service, operation)), *headers, *more),
    )


def cancel_operation(service: HttpService, request: Request) -> Given:
    """``DELETE /v1/operations/{id}``: cancel an operation; no effect once it has ended."""
    request.check_accept(JSON)
    request.query()

    def _cancel(_: None) -> Given:
        operation = operation_of(service, request)
        if not request.grant.may_change(operation.owner):
            raise problems.not_own("operation", operation.id, operation.owner)
        if operation.outcome is not None:
            return answer(200, view_of(service, operation))
        # It may have ended meanwhile, by an entry before this one: then its view shows how.
        entry = EndOperation(id=operation.id, how="cancelled", owner=request.grant.bound_to)
        return after(service.end(entry, request), lambda _: settled(service, operation))

    return after(service.caught_up(), _cancel)


async def list_operations(service: HttpService, request: Request) -> Answer:
    """``GET /v1/operations``: list operations in the order of submission, in pages; pending ones without ``state``."""
    request.check_accept(JSON)
    query = request.query("cursor", "id_prefix", "key", "limit", "state")
    state, id_prefix = query.ends(), query.id_prefix()
    limit = limit_of(query)
    # The cursor is a place in the order of submission, so it stays valid when operations end.
    behind = query.integer("cursor", 0, 2**63 - 1) or 0
    keys = query.keys()
    key = checked_key(keys[0]) if keys else None
    request.use_listed(key)
    await service.state.caught_up()
    grant = request.grant

    def _wanted(operation: Operation) -> bool:
        """Whether an operation is in the list."""
        return operation.id.startswith(id_prefix) and grant.covers_all(operation.watch_keys)

    if state == "pending":
        narrowed = bool(id_prefix or grant.prefixes)
        found = await _seen(service, key, behind, limit + 1, _wanted if narrowed else None)
    else:
        known = service.fold.operations.by_id.values()
        found = await first_of(
            known,
            limit + 1,
            place=_POSITION,
            wanted=lambda each: (
                each.position > behind
                and is_in(each, state)
                and key in {None, *each.watch_keys}
                and _wanted(each)
            ),
        )
    return answer(200, _page(service, found, limit))


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
    service: HttpService,
    key: str | None,
    behind: int,
    count: int,
    wanted: Callable[[Operation], bool] | None,
) -> list[Operation]:
    """Return the first pending operations behind a place that are wanted; None for all."""
    if wanted is None:
        return list(islice(service.listed(key, behind), count))
    found: list[Operation] = []
    # They may be few of very many, which are looked at in passes of a millisecond.
    while len(found) < count and (some := list(islice(service.listed(key, behind), STEPS))):
        found += filter(wanted, some)
        behind = some[-1].position
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
        present = as_present(self.service, self._operation)
        return None if present.outcome in _PENDING else self._then(present)

    def over(self) -> Given:
        """Go on with the operation as it is."""
        present = as_present(self.service, self._operation)
        lost = present.outcome is Outcome.CLOSED
        return self._then(self.service.find(present.id) if lost else present)


def is_in(operation: Operation, state: str) -> bool:
    """Whether a list of a state has an operation."""
    return state in {"all", operation.state, "ended" if operation.outcome else ""}


def as_present(service: HttpService, operation: Operation) -> Operation:
    """Return an operation as in the present state; as closed if only a state that was given up had it."""
    return service.fold.operations.by_id.get(operation.id, operation)


def operation_of(service: HttpService, request: Request) -> Operation:
    """Return the operation in a request's path; raises as `Service.find`."""
    return service.find(id_of(request), request.grant)


def id_of(request: Request) -> str:
    """Return the id in a request's path; ``unknown-operation`` if it cannot be decoded."""
    raw = request.parameters["id"]
    try:
        return percent_decoded(raw)
    except ValueError:
        raise problems.unknown_operation(raw.decode("ascii", "backslashreplace")) from None


def view_of(service: HttpService, operation: Operation, *, full: bool = False) -> OperationView:
    """Return an operation as answers show it, with all signals if it is ``full``."""
    view = operation.view(service.state.now_us())
    return view if full else fitting(view)
