"""``/v1/queues`` and ``/v1/leases``: put items, take them on loan, acknowledge or return them."""

from typing import Final

import msgspec
from msgspec import UNSET

from purgatory_async.service import problems
from purgatory_async.service.api.query_string import percent_decoded
from purgatory_async.service.api.request import Request, decoded
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.messages import Delivered, ItemBody, Leased, TakeBody, compact
from purgatory_async.service.service import Service
from purgatory_async.service.state.fold.entries import PutItem
from purgatory_async.service.state.fold.shared import SECOND
from purgatory_async.web.durations import checked_timeout

ITEM: Final = msgspec.json.Decoder(ItemBody)
TAKE: Final = msgspec.json.Decoder(TakeBody)
LEASE: Final = 30.0
"""The default duration of a lease, in seconds."""


async def put_item(service: Service, request: Request) -> Answer:
    """``POST /v1/queues/{queue}/items``: hand an item to one taker, or keep it until one comes."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    body = await request.body()
    item = compact(decoded(body, ITEM).item)
    once = request.repeatable(body)
    result = await service.put(PutItem(queue=queue, item=item, idem=once.key, digest=once.digest))
    return answer(201, Delivered(result.delivered), *replayed(result))


async def take_item(service: Service, request: Request) -> Answer:
    """``POST /v1/queues/{queue}/take``: take an item on loan; with ``wait`` hold the request until one comes."""
    request.check_accept(JSON)
    wait = request.wait(request.query("wait"), service.settings.max_wait)
    queue = request.key("queue")
    seconds = _lease_seconds(decoded(await request.body(), TAKE, optional=True))
    held_for = service.shortened(wait.seconds)
    lease = await service.takers.take(queue, held_for, seconds, request.receive)
    if lease is None:
        return Answer(204, headers=wait.headers)
    longest = service.fold.shared.limits.max_lease / SECOND
    return answer(200, Leased(lease.id, lease.item[1], min(seconds, longest)), *wait.headers)


async def acknowledge_lease(service: Service, request: Request) -> Answer:
    """``POST /v1/leases/{id}/ack``: acknowledge the item, which ends the lease."""
    await service.end_loan(await _lease_id(request), back=False)
    return Answer(204)


async def return_lease(service: Service, request: Request) -> Answer:
    """``POST /v1/leases/{id}/return``: put the item back in front of its queue."""
    await service.end_loan(await _lease_id(request), back=True)
    return Answer(204)


def _lease_seconds(body: TakeBody) -> float:
    if body.lease is UNSET:
        return LEASE
    try:
        seconds = checked_timeout(body.lease)
    except ValueError as error:
        raise problems.invalid("/lease", str(error)) from None
    if not seconds:
        raise problems.invalid("/lease", f"must be above 0 seconds, got {body.lease!r}")
    return seconds


async def _lease_id(request: Request) -> str:
    request.check_accept(JSON)
    request.query()
    await request.body()
    raw = request.parameters["id"]
    try:
        return percent_decoded(raw)
    except ValueError:
        raise problems.unknown_lease(raw.decode("ascii", "backslashreplace")) from None
