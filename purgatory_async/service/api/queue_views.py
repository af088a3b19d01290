"""``/v1/queues``: list, show, set and peek at queues, purge and redrive them."""

import asyncio
import datetime as dt
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.names import MAX_KEY_BYTES, checked_key
from purgatory_async.durable.documents.queue_messages import (
    ItemList,
    ItemView,
    PurgeBody,
    Purged,
    QueueBody,
    QueueList,
    QueueView,
    RedriveBody,
    Redriven,
)
from purgatory_async.durable.fold.entries import Entry, PurgeQueue, RedriveItems, SetQueue
from purgatory_async.durable.fold.items import DEAD, Hidden, Item, Queue
from purgatory_async.durable.fold.results import Moved, Refused
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.state import Answer as StateAnswer
from purgatory_async.durable.verbs.durations import lease_us
from purgatory_async.durable.verbs.refusals import problem_of
from purgatory_async.service.api.paging import first_of, limit_of, numbers_of, page_of, text_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService

REDRIVEN: Final = 256
"""Dead items that come back in one step; with takers in line some milliseconds."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SETTINGS: Final = msgspec.json.Decoder(QueueBody)
_PURGE: Final = msgspec.json.Decoder(PurgeBody)
_REDRIVE: Final = msgspec.json.Decoder(RedriveBody)
_PLACE: Final = attrgetter("place")


async def list_queues(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues``: list the queues by name, in pages."""
    request.check_accept(JSON)
    query = request.query("cursor", "limit", "prefix")
    limit, after, prefix = limit_of(query), query.text("cursor"), query.text("prefix")
    for name in (after, prefix):  # a cursor is the last queue's name
        if name is not None:
            checked_key(name)
    request.use_listed(prefix)
    await service.state.caught_up()
    covers = request.grant.covers
    found = await first_of(
        service.fold.queues.by_name,
        limit + 1,
        place=str,
        wanted=lambda name: name.startswith(prefix or "") and name > (after or "") and covers(name),
    )
    return answer(200, QueueList(*page_of(found, limit, lambda name: _view(service, name), str)))


async def read_queue(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues/{queue}``: show a queue and its settings."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    await service.state.caught_up()
    if queue not in service.fold.queues.by_name:
        raise problems.unknown_queue(queue)
    return answer(200, _view(service, queue))


def set_queue(service: HttpService, request: Request) -> Given:
    """``PUT /v1/queues/{queue}``: set what differs from the defaults, in full."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    body = decoded(request.body(), _SETTINGS)
    too_long = len((queue + DEAD).encode()) > MAX_KEY_BYTES
    if isinstance(body.max_attempts, int) and (too_long or queue.endswith(DEAD)):
        bound = f"null for a queue whose name ends with {DEAD} or has no room for it"
        raise problems.invalid("/max_attempts", f"must be {bound}, got {body.max_attempts}")
    entry = SetQueue(
        queue=queue,
        lease_us=lease_us(body.lease),
        max_attempts=body.max_attempts,
        max_items=body.max_items,
        max_bytes=body.max_bytes,
    )
    return after(service.state.propose(entry, request), partial(_set, service, entry))


def _set(service: HttpService, entry: SetQueue, given: StateAnswer) -> Answer:
    if isinstance(given.result, Refused):
        raise problem_of(given.result, entry, service.fold)
    return answer(200, _view(service, entry.queue))


def forget_queue(service: HttpService, request: Request) -> Given:
    """``DELETE /v1/queues/{queue}``: forget the settings of a queue; its items stay."""
    request.check_accept(JSON)
    request.query()
    entry = SetQueue(queue=request.key("queue"))
    return after(service.state.propose(entry, request), lambda _: Answer(204))


async def peek_items(service: HttpService, request: Request) -> Answer:
    """``GET /v1/queues/{queue}/items``: show items in the order in which they will be taken, or be due."""
    request.check_accept(JSON)
    query = request.query("cursor", "delayed", "limit")
    limit, delayed = limit_of(query), query.switch("delayed")
    after = numbers_of(query.text("cursor"), 4 if delayed else 3)
    queue = request.key("queue")
    await service.state.caught_up()
    found = service.fold.queues.by_name.get(queue) or Queue(queue)
    if delayed:
        hidden = await first_of(
            found.hidden.values(),
            limit + 1,
            place=_due,
            wanted=lambda each: after is None or _due(each) > after,
        )
        page = page_of(hidden, limit, _hidden_view, lambda each: text_of(_due(each)))
    else:
        page = page_of(_ready_after(found, after), limit, _item_view, lambda item: text_of(item.place))
    return answer(200, ItemList(*page))


def purge_queue(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/purge``: drop all items of a queue but the leased ones."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    decoded(request.body(), _PURGE, optional=True)
    return after(_moved(service, request, PurgeQueue(queue=queue)), lambda items: answer(200, Purged(items)))


def redrive_items(service: HttpService, request: Request) -> Given:
    """``POST /v1/queues/{queue}/redrive``: put the dead items of a queue behind those that wait, the oldest first."""
    request.check_accept(JSON)
    request.query()
    queue = request.key("queue")
    return _redrive(service, request, queue, decoded(request.body(), _REDRIVE, optional=True))


async def _redrive(service: HttpService, request: Request, queue: str, body: RedriveBody) -> Answer:
    await service.state.caught_up()
    dead = service.fold.queues.by_name.get(queue + DEAD)
    # Items that die meanwhile stay: takers that fail at once would keep it going for ever.
    left = 0 if dead is None else len(dead.ready)
    left = left if isinstance(body.max, UnsetType) else min(left, body.max)
    total = 0
    while left:
        try:
            entry = RedriveItems(queue=queue, max=min(left, REDRIVEN))
            moved = await at_last(_moved(service, request, entry))
        except problems.Problem:  # the rights were lost between two steps
            if total:
                break
            raise
        total += moved
        left = left - moved if moved else 0  # another request took the rest
        await asyncio.sleep(0)
    return answer(200, Redriven(total))


def _moved(service: HttpService, request: Request, entry: Entry) -> Later[int]:
    return after(service.state.propose(entry, request), _items_moved)


def _items_moved(given: StateAnswer) -> int:
    assert isinstance(given.result, Moved), f"a move of items cannot give {given.result!r}"
    return given.result.items


def _ready_after(queue: Queue, after: tuple[int, ...] | None) -> Iterator[Item]:
    items = queue.in_order()
    start = 0 if after is None else bisect_right(items, after, key=_PLACE)
    return (items[place] for place in range(start, len(items)))


def _due(hidden: Hidden) -> tuple[int, ...]:
    return (hidden.until_us, *hidden.item.place)


def _hidden_view(hidden: Hidden) -> ItemView:
    view = _item_view(hidden.item)
    view.due_at = _time(hidden.until_us)
    return view


def _item_view(item: Item) -> ItemView:
    return ItemView(str(item.number), item.text, item.attempts, _time(item.put_us), UNSET)


def _view(service: HttpService, name: str) -> QueueView:
    queues, limits = service.fold.queues.by_name, service.fold.shared.limits
    queue = queues.get(name) or Queue(name)
    first_us = queue.ready[0].put_us if queue.ready else 0
    return QueueView(
        queue=name,
        items=len(queue.ready),
        delayed=len(queue.hidden),
        leased=queue.leased,
        takers=queue.takers,
        oldest=max(service.state.now_us() - first_us, 0) / SECOND if first_us else None,
        bytes=queue.size,
        lease=min(queue.lease_us, limits.max_lease_us) / SECOND,
        max_attempts=queue.max_attempts,
        max_items=queue.max_items(limits),
        max_bytes=queue.max_bytes(limits),
        dead=name + DEAD if queue.max_attempts is not None or name + DEAD in queues else None,
    )


def _time(at_us: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(0, 0, at_us)
