"""``/v1/leases``: acknowledge, return, extend and list leased items."""

import asyncio
from functools import partial
from typing import Final

import msgspec

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.documents.queue_messages import (
    MAX_BATCH,
    ExtendBody,
    Extended,
    LeaseFault,
    LeaseList,
    LeasesBody,
    LeasesEnded,
    LeaseView,
    ReturnBody,
)
from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.entries import EndLease, ExtendLease
from purgatory_async.durable.fold.leases import Lease
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.grants import Grant
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.verbs.durations import delay_us, lease_us
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.paging import first_of, limit_of, page_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService

_RETURN: Final = msgspec.json.Decoder(ReturnBody)
_EXTEND: Final = msgspec.json.Decoder(ExtendBody)
_LEASES: Final = msgspec.json.Decoder(LeasesBody)


def acknowledge_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/ack``: acknowledge the item, which ends the lease."""
    _check(request)
    entry = EndLease(lease_id=_lease_id(request))
    request.body()
    return after(_change(service, request, entry), lambda _: Answer(204))


def return_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/return``: put the item back in its place; with ``delay`` hide it there."""
    _check(request)
    entry = EndLease(lease_id=_lease_id(request), back=True)
    entry.delay_us = delay_us(decoded(request.body(), _RETURN, optional=True).delay)
    return after(_change(service, request, entry), lambda _: Answer(204))


def extend_lease(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/{id}/extend``: count the lease again from now on."""
    _check(request)
    lease_id = _lease_id(request)
    body = decoded(request.body(), _EXTEND, optional=True)
    entry = ExtendLease(lease_id=lease_id, lease_us=lease_us(body.lease))
    return after(_change(service, request, entry), partial(_extended, lease_id))


def _extended(lease_id: str, result: results.Result) -> Answer:
    assert isinstance(result, results.Extended), f"an extension cannot give {result!r}"
    return answer(200, Extended(lease_id, result.left_us / SECOND))


def acknowledge_leases(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/ack``: acknowledge items, each for itself."""
    return _end_all(service, request, back=False)


def return_leases(service: HttpService, request: Request) -> Given:
    """``POST /v1/leases/return``: put items back in their places, each for itself."""
    return _end_all(service, request, back=True)


async def list_leases(service: HttpService, request: Request) -> Answer:
    """``GET /v1/leases``: list the leased items, the first to come back first, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "limit", "queue")
    limit, cursor, queue = limit_of(query), query.text("cursor"), query.text("queue")
    if queue is not None:
        checked_key(queue)
    request.use_listed(queue)
    after = None if cursor is None else _place_of(cursor)
    await service.state.caught_up()
    now_us, grant = service.state.now_us(), request.grant

    def wanted(lease: Lease) -> bool:
        """Whether a lease is in the list, after the cursor."""
        if queue not in {None, lease.queue} or not grant.sees(lease.owner, lease.queue):
            return False
        return after is None or _place(lease) > after

    def show(lease: Lease) -> LeaseView:
        """Return a lease as answers show it."""
        left = max(lease.until_us - now_us, 0) / SECOND
        return LeaseView(lease.id, lease.queue, str(lease.item.number), lease.attempts, lease.owner, left)

    leases = service.fold.queues.leases.values()
    found = await first_of(leases, limit + 1, place=_place, wanted=wanted)
    return answer(200, LeaseList(*page_of(found, limit, show, _cursor)))


def _place(lease: Lease) -> tuple[int, str]:
    return lease.until_us, lease.id


def _cursor(lease: Lease) -> str:
    return f"{lease.until_us}-{lease.id}"


def _place_of(cursor: str) -> tuple[int, str]:
    number, hyphen, lease_id = cursor.partition("-")
    if not hyphen or not number.isdecimal() or not number.isascii() or len(number) > 19:  # noqa: PLR2004 - as 64 bits
        raise problems.bad_parameter("cursor", cursor, "the next of an answer")
    return int(number), lease_id


def _end_all(service: HttpService, request: Request, *, back: bool) -> Given:
    _check(request)
    body = request.body()
    check_list(body, "leases", MAX_BATCH)
    return _end_each(service, request, decoded(body, _LEASES).leases, back=back)


async def _end_each(service: HttpService, request: Request, leases: list[str], *, back: bool) -> Answer:
    async def _end(lease_id: str) -> results.Result:
        return await at_last(_change(service, request, EndLease(lease_id=lease_id, back=back)))

    found = await asyncio.gather(*map(_end, leases), return_exceptions=True)
    errors = list[LeaseFault]()
    for number, each in enumerate(found):
        if isinstance(each, problems.Problem):
            document = each.document
            errors.append(LeaseFault(f"/leases/{number}", document.type, document.status))
        elif isinstance(each, BaseException):
            raise each
    if len(errors) == len(leases):
        request.check_admission()
    return answer(200, LeasesEnded(len(leases) - len(errors), errors))


def _change(service: HttpService, request: Request, entry: EndLease | ExtendLease) -> Later[results.Result]:
    """End or extend a lease that the token may change.

    Raises:
        Problem: ``unknown-lease``, ``lease-expired``, or ``forbidden`` for one that it may only see.
    """
    if request.grant.prefixes:  # the fold compares owners, and no prefixes
        return after(service.caught_up(), lambda _: _change_own(service, request, entry))
    return _change_own(service, request, entry)


def _change_own(
    service: HttpService, request: Request, entry: EndLease | ExtendLease
) -> Later[results.Result]:
    grant = request.grant
    _check_own(service, grant, entry.lease_id)
    entry.owner = grant.bound_to
    return service.change_lease(entry, request)


def _check_own(service: HttpService, grant: Grant, lease_id: str) -> None:
    # A lease that is not yet known here is refused by the fold, as unknown. Its owner never changes.
    lease = service.fold.queues.leases.get(lease_id)
    if lease is None:
        return
    if not grant.sees(lease.owner, lease.queue):
        raise problems.unknown_lease(lease_id)
    if not grant.may_change(lease.owner):
        raise problems.not_own("lease", lease_id, lease.owner)


def _check(request: Request) -> None:
    request.check_accept(JSON)
    request.query()


def _lease_id(request: Request) -> str:
    raw = request.parameters["id"]
    try:
        return percent_decoded(raw)
    except ValueError:
        raise problems.unknown_lease(raw.decode("ascii", "backslashreplace")) from None
