"""``/v1/queues/{queue}/items`` and ``/take``: put items, lease them."""

from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from purgatory_async.durable.documents import compact, problems
from purgatory_async.durable.documents.decoding import decoded, decoded_each
from purgatory_async.durable.documents.queue_messages import (
    MAX_BATCH,
    Delivered,
    DeliveredItems,
    ItemBody,
    Leased,
    LeasedItems,
    TakeBody,
)
from purgatory_async.durable.fold.entries import NewItem, PutItem, PutItems, WantItem
from purgatory_async.durable.fold.leases import Lease
from purgatory_async.durable.fold.results import Put, PutSome, Result
from purgatory_async.durable.fold.shared import SECOND, microseconds
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.durations import delay_us, lease_us
from purgatory_async.durable.verbs.levels import check_level
from purgatory_async.durable.waiting.takers import Taken
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService


class _Body(Struct, forbid_unknown_fields=True):
    """`ItemBody` or `ItemsBody`, its items not yet decoded, so that each fault can be told."""

    item: Raw | UnsetType = UNSET
    delay: float | str | UnsetType = UNSET
    items: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)] | UnsetType = UNSET


_BODY: Final = msgspec.json.Decoder(_Body)
_ITEM: Final = msgspec.json.Decoder(ItemBody)
_TAKE: Final = msgspec.json.Decoder(TakeBody)


def put_item(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/items``: hand items to one taker each, or keep them until one comes."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    body = request.body()
    check_list(body, "items", MAX_BATCH)
    entry = _entry_of(queue, decoded(body, _BODY))
    return after(request.repeatable(body, entry, service.state), partial(_put, service, request, entry))


def _put(service: HttpService, request: Request, entry: PutItem | PutItems, once: Repeatable) -> Given:
    entry.idem, entry.digest = once
    entry.owner, entry.quota = request.grant.owner, request.grant.quota
    return after(service.put(entry, request), _answer_to_put)


def _answer_to_put(result: Result) -> Answer:
    if isinstance(result, Put):
        return answer(201, Delivered(str(result.item), result.delivered), *replayed(result))
    assert isinstance(result, PutSome), f"a put cannot give {result!r}"
    given = zip(result.items, result.delivered, strict=True)
    items = [Delivered(str(number), delivered) for number, delivered in given]
    return answer(201, DeliveredItems(items), *replayed(result))


def take_item(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/take``: lease items; with ``wait`` hold the request until one comes."""
    request.check_accept(JSON)
    wait = request.wait(request.query("wait"), service.settings.max_wait)
    queue = request.key("queue")
    text = request.body()
    body = decoded(text, _TAKE, optional=True)
    most = 1 if isinstance(body.max, UnsetType) else body.max
    order = WantItem(queue=queue, lease_id="", lease_us=lease_us(body.lease), max=most)

    def _taken(taken: Taken) -> Answer:
        if not taken.leases:
            return Answer(204, headers=wait.headers)
        # Since an earlier request took them some of their time has passed.
        since_us = service.state.now_us() if taken.replayed else None
        views = [_view(each, since_us) for each in taken.leases]
        given = views[0] if body.max is UNSET else LeasedItems(views)
        return answer(200, given, *wait.headers, *replayed(taken))

    def _take(_: None) -> Given:
        return service.held.taking.hold(request, order, _taken)

    def _once(once: Repeatable) -> Given:
        order.idem, order.digest = once
        order.owner, order.wait_us = request.grant.owner, microseconds(service.shortened(wait.seconds))
        return after(check_level(service.state, order), _take)

    return after(request.repeatable(text, order, service.state), _once)


def _view(lease: Lease, since_us: int | None) -> Leased:
    item = lease.item
    left_us = lease.lease_us if since_us is None else max(lease.until_us - since_us, 0)
    return Leased(lease.id, str(item.number), item.text, lease.attempts, left_us / SECOND)


def _entry_of(queue: str, body: _Body) -> PutItem | PutItems:
    """Check a decoded body, and return its entry.

    Raises:
        Problem: ``invalid``.
    """
    if isinstance(body.items, UnsetType):
        if isinstance(body.item, UnsetType):
            raise problems.invalid("/item", "must be given, any JSON; or items, a list of such objects")
        return PutItem(queue=queue, item=compact(body.item), delay_us=delay_us(body.delay))
    given = [name for name in ("item", "delay") if getattr(body, name) is not UNSET]
    if given:
        beside = " and ".join(given)
        raise problems.invalid("/items", f"must be given alone, each with its delay, got {beside} beside it")
    return PutItems(queue=queue, items=decoded_each("items", body.items, _item_of, "delay"))


def _item_of(text: Raw) -> NewItem:
    body = _ITEM.decode(text)
    return NewItem(compact(body.item), delay_us(body.delay))
