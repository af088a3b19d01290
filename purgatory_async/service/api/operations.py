"""``/v1/operations`` and ``/v1/events``: submit, show, end, list and follow operations."""

from typing import Final, Generic, TypeVar

import msgspec
from msgspec import UNSET

from purgatory_async import Outcome
from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.messages import MAX_LISTED, Attach
from purgatory_async.durable.documents.names import checked_id, new_id
from purgatory_async.durable.documents.problems import Kind
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.answers import as_present, attach, cancel, view_of
from purgatory_async.durable.verbs.keeper import Submission
from purgatory_async.durable.verbs.listing import Listed, checked_state, list_page
from purgatory_async.durable.verbs.submissions import ATTACH, SUBMIT, entry_of
from purgatory_async.durable.waiting.waiters import end_of
from purgatory_async.service.api.holding import Awaited
from purgatory_async.service.api.paging import limit_of
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.stream import EVENT_STREAM
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.records import Headers

A = TypeVar("A", bound=Attach)

_FOUND: Final = 200
ATTACHED: Final = ("X-Purgatory-Attached", "true")
_NO_LONGER_HELD: Final = frozenset({HttpKind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.OVERLOADED})
"""Why a submission may no longer be held. It was made, so it is answered: only requests that changed nothing are
refused."""

_PENDING: Final = frozenset({None, Outcome.CLOSED})
"""Outcomes of an operation that has not ended: it is closed with a state that was given up."""


def submit_operation(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations``: submit an operation; with ``wait`` hold the request until it ends."""
    submission = _Submission(_Shown(service, request), SUBMIT)
    order = submission.order
    if isinstance(order.id, str):
        submission.known_as = checked_id(order.id)
    else:
        submission.known_as, submission.drawn = new_id(), ("id",)
    # Only the state tells which history a place is of.
    return submission.submit() if order.since is UNSET else after(service.caught_up(), submission.submit)


def attach_operation(service: HttpService, request: Request) -> Given:
    """``PUT /v1/operations/{id}``: submit an operation, or attach to the equal one; hold with ``wait``."""
    shown = _Shown(service, request)
    operation_id = checked_id(id_of(request))
    submission = _Submission(shown, ATTACH)
    submission.known_as = operation_id
    return after(service.caught_up(), submission.attach)


def read_operation(service: HttpService, request: Request) -> Given:
    """``GET /v1/operations/{id}``: show an operation; with ``wait`` hold the request until it ends."""
    return after(service.caught_up(), _Shown(service, request).find)


class _Shown(Awaited):
    """An operation that a request shows, at once or at its end.

    It may be another object once the state was loaded again.

    Raises:
        Problem: ``not-acceptable`` or ``bad-parameter``.
    """

    __slots__ = ("ended", "full", "headers", "operation", "pending")

    operation: Operation

    def __init__(self, service: HttpService, request: Request) -> None:
        request.check_accept(JSON)
        query = request.query("full", "wait")
        wait = request.wait(query, service.settings.max_wait)
        Awaited.__init__(self, service, request, None, wait)  # by super() it would take as long as the call
        self.full = query.switch("full")
        self.headers = wait.headers
        self.pending = self.ended = _FOUND  # the status of the answer

    def find(self, _: object) -> Given:
        """Show the operation in the path."""
        self.operation = operation = operation_of(self.service, self.request)
        self.request.use(*operation.watch_keys)
        return self.show()

    def recorded(self, headers: Headers) -> Given:
        """Show an operation that was just submitted."""
        self.headers += headers
        self.pending, self.ended = 202, 201
        return self.show()

    def show(self) -> Given:
        """Answer once the operation has ended or the wait is over."""
        operation = self.operation
        if operation.outcome is not None or not self.wait.seconds:
            return self.answer(operation)
        self.watched, self.ended = end_of(operation), _FOUND
        return self.begin()

    def answer(self, operation: Operation) -> Answer:
        """Answer with the operation as it is."""
        view, headers = view_of(self.service, operation, full=self.full), self.headers
        status = self.pending if operation.outcome is None else self.ended
        if status != _FOUND:
            headers = (("Location", f"{self.request.prefix}/v1/operations/{operation.id}"), *headers)
        return answer(status, view, *headers)

    def look(self) -> Given | None:
        """Answer with the operation, if it has ended."""
        present = as_present(self.service, self.operation)
        return None if present.outcome in _PENDING else self.answer(present)

    def over(self) -> Given:
        """Answer with the operation as it is."""
        present = as_present(self.service, self.operation)
        lost = present.outcome is Outcome.CLOSED
        return self.answer(self.service.find(present.id) if lost else present)

    def refused(self, error: Exception) -> Answer | None:
        """Answer a submission that may not be held any longer: it was made."""
        made = (
            self.pending != _FOUND and isinstance(error, problems.Problem) and error.kind in _NO_LONGER_HELD
        )
        return self.answer(self.operation) if made else None


class _Submission(Generic[A]):
    """A submission, from its body to its operation, which `_Shown` goes on with.

    Args:
        shown: Shows the operation.
        decoder: Reads the body.

    Raises:
        Problem: As of `Request.body` and `decoded`; ``overloaded``: it could not be held.
    """

    __slots__ = ("body", "drawn", "entry", "known_as", "order", "shown")

    entry: SubmitOperation
    known_as: str

    def __init__(self, shown: _Shown, decoder: msgspec.json.Decoder[A]) -> None:
        self.shown = shown
        self.body = body = shown.request.body()
        check_list(body, "keys", MAX_LISTED)
        self.order = decoded(body, decoder)
        self.drawn: tuple[str, ...] = ()
        if shown.wait.seconds:
            shown.service.held.requests.check_limit()

    def submit(self, _: object = None) -> Given:
        """Submit it, once for its Idempotency-Key."""
        service, request = self.shown.service, self.shown.request
        self.entry = entry = entry_of(self.order, self.known_as, service.state, request)
        return after(request.repeatable(self.body, entry, service.state, self.drawn), self._submit)

    def _submit(self, once: Repeatable) -> Given:
        service, request, entry = self.shown.service, self.shown.request, self.entry
        entry.idem, entry.digest = once
        return after(service.submit(entry, request, request.grant.limits.max_pending), self._made)

    def attach(self, _: object) -> Given:
        """Submit it, or attach to the one with its id."""
        service, request = self.shown.service, self.shown.request
        entry = entry_of(self.order, self.known_as, service.state, request)
        return after(attach(service, entry, request, request.grant.limits.max_pending), self._made)

    def _made(self, made: Submission) -> Given:
        """Show the operation once it is recorded; one that was there has made nothing to record."""
        shown = self.shown
        shown.operation = operation = made.operation
        if made.attached:
            shown.headers += (ATTACHED,)
            return shown.show()
        shown.headers += replayed(made)
        return after(shown.service.records.record(operation), shown.recorded)


def settled(service: HttpService, operation: Operation, *more: tuple[str, str]) -> Given:
    """Answer with an operation once its change is recorded."""
    return after(
        service.records.settle(),
        lambda headers: answer(200, view_of(service, operation), *headers, *more),
    )


def cancel_operation(service: HttpService, request: Request) -> Given:
    """``DELETE /v1/operations/{id}``: cancel an operation; no effect once it has ended."""
    request.check_accept(JSON)
    request.query()

    def _cancel(_: None) -> Given:
        operation = operation_of(service, request)
        ended = operation.outcome is not None
        return after(
            cancel(service, operation, request),
            lambda _: answer(200, view_of(service, operation)) if ended else settled(service, operation),
        )

    return after(service.caught_up(), _cancel)


async def list_operations(service: HttpService, request: Request) -> Answer:
    """``GET /v1/operations``: list operations in the order of submission, in pages; pending ones without ``state``."""
    request.check_accept(JSON)
    query = request.query("cursor", "id_prefix", "key", "limit", "state")
    limit = limit_of(query)
    # The cursor is a place in the order of submission, so it stays valid when operations end.
    behind = query.integer("cursor", 0, 2**63 - 1) or 0
    keys = query.keys()
    listed = Listed(
        keys[0] if keys else None, checked_state(query.text("state")), query.text("id_prefix") or ""
    )
    listed.check()
    request.use_listed(listed.key)
    await service.state.caught_up()
    return answer(200, await list_page(service, request, listed, behind, limit))


def read_events(service: HttpService, request: Request) -> Given:
    """``GET /v1/events``: a stream of server-sent events, from now on or from behind ``Last-Event-ID``."""
    request.check_accept(EVENT_STREAM)
    request.query()
    last = request.header("last-event-id")
    try:
        last_read = None if last is None else service.held.feed.number_of(last)
    except ValueError:
        raise http_problems.bad_header(
            "Last-Event-ID", "the id of an event, EPOCH-POSITION.NUMBER", last or ""
        ) from None
    request.use_listed()
    return service.held.streams.stream(request, last_read, request.grant.prefixes)


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
