"""``/v1/leases``: acknowledge, return, extend and list leased items."""

from functools import partial

from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold.entries import EndLease
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.leases import (
    change,
    end_each,
    extend,
    extension_in,
    lease_list,
    leases_in,
    return_in,
)
from purgatory_async.service.api.paging import limit_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService


def acknowledge_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/ack``: acknowledge the item, which ends the lease."""
    _check(request)
    entry = EndLease(lease_id=_lease_id(request))
    request.body()
    return after(change(service, entry, request), lambda _: Answer(204))


def return_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/return``: put the item back in its place; with ``delay`` hide it there."""
    _check(request)
    lease_id = _lease_id(request)
    entry = return_in(request.body(), lease_id)
    return after(change(service, entry, request), lambda _: Answer(204))


def extend_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/extend``: count the lease again from now on."""
    _check(request)
    lease_id = _lease_id(request)
    entry = extension_in(request.body(), lease_id)
    return after(extend(service, entry, request), partial(answer, 200))


def acknowledge_leases(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/ack``: acknowledge items, each for itself."""
    _check(request)
    return _end_each(service, request, leases_in(request.body()), back=False)


def return_leases(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/return``: put items back in their places, each for itself."""
    _check(request)
    return _end_each(service, request, leases_in(request.body()), back=True)


async def _end_each(service: HttpService, request: Request, leases: list[str], *, back: bool) -> Answer:
    ended = await end_each(service, leases, request, back=back)
    if not ended.done:  # perhaps because the token has changed
        request.check_admission()
    return answer(200, ended)


async def list_leases(service: HttpService, request: Request) -> Answer:
    """``GET /v1/leases``: list the leased items, the first to come back first, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "limit", "queue")
    limit, queue, cursor = limit_of(query), query.text("queue"), query.text("cursor")
    return answer(200, await lease_list(service, queue, cursor, limit, request))


def _check(request: Request) -> None:
    request.check_accept(JSON)
    request.query()


def _lease_id(request: Request) -> str:
    raw = request.parameters["id"]
    try:
        return percent_decoded(raw)
    except ValueError:
        raise problems.unknown_lease(raw.decode("ascii", "backslashreplace")) from None
