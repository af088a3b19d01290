"""Queues: from the bodies that ask for something to entries of the log, and from the state to what readers see."""

import asyncio
import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from purgatory_async.durable.documents import compact, problems
from purgatory_async.durable.documents.decoding import decoded, decoded_each
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.names import MAX_KEY_BYTES, checked_key
from purgatory_async.durable.documents.queue_messages import (
    MAX_BATCH,
    Delivered,
    DeliveredItems,
    ItemBody,
    ItemList,
    ItemView,
    PurgeBody,
    QueueBody,
    QueueList,
    QueueView,
    RedriveBody,
    TakeBody,
)
from purgatory_async.durable.fold.entries import (
    NewItem,
    PurgeQueue,
    PutItem,
    PutItems,
    RedriveItems,
    SetQueue,
    WantItem,
)
from purgatory_async.durable.fold.items import DEAD, Hidden, Item, Queue
from purgatory_async.durable.fold.results import Moved, Put, PutSome
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.state import Answer, Guard
from purgatory_async.durable.verbs.durations import delay_us, lease_us
from purgatory_async.durable.verbs.keeper import Keeper, accepted
from purgatory_async.durable.verbs.pages import first_of, no_cursor, page_of

REDRIVEN: Final = 256
"""Dead items that come back in one step; with takers in line some milliseconds."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PLACE: Final = attrgetter("place")


class _Items(Struct, forbid_unknown_fields=True):
    """`ItemBody` or `ItemsBody`, its items not yet decoded, so that each fault can be told."""

    item: Raw | UnsetType = UNSET
    delay: float | str | UnsetType = UNSET
    items: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)] | UnsetType = UNSET


_ITEMS: Final = msgspec.json.Decoder(_Items)
_ITEM: Final = msgspec.json.Decoder(ItemBody)
_TAKE: Final = msgspec.json.Decoder(TakeBody)
_SETTINGS: Final = msgspec.json.Decoder(QueueBody)
_PURGE: Final = msgspec.json.Decoder(PurgeBody)
_REDRIVE: Final = msgspec.json.Decoder(RedriveBody)


def put_in(body: bytes, queue: str, by: Guard) -> PutItem | PutItems:
    """Check the body of a put, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    check_list(body, "items", MAX_BATCH)
    given = decoded(body, _ITEMS)
    grant = by.grant
    owner, quota = grant.owner, grant.quota
    if isinstance(given.items, UnsetType):
        if isinstance(given.item, UnsetType):
            raise problems.invalid("/item", "must be given, any JSON; or items, a list of such objects")
        item = compact(given.item)
        return PutItem(queue=queue, item=item, delay_us=delay_us(given.delay), owner=owner, quota=quota)
    beside = " and ".join(name for name in ("item", "delay") if getattr(given, name) is not UNSET)
    if beside:
        raise problems.invalid("/items", f"must be given alone, each with its delay, got {beside} beside it")
    items = decoded_each("items", given.items, _item_in, "delay")
    return PutItems(queue=queue, items=items, owner=owner, quota=quota)


def _item_in(text: Raw) -> NewItem:
    body = _ITEM.decode(text)
    return NewItem(compact(body.item), delay_us(body.delay))


def delivered(result: Put | PutSome) -> Delivered | DeliveredItems:
    """Show items that were put. O(items)."""
    if isinstance(result, Put):
        return Delivered(str(result.item), result.delivered)
    given = zip(result.items, result.delivered, strict=True)
    return DeliveredItems([Delivered(str(number), delivered) for number, delivered in given])


def take_in(body: bytes, queue: str) -> tuple[WantItem, bool]:
    """Check the body of a take; return its entry, and whether it asks for a list.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    given = decoded(body, _TAKE, optional=True)
    lease = lease_us(given.lease)
    if isinstance(given.max, UnsetType):
        return WantItem(queue=queue, lease_id="", lease_us=lease, max=1), False
    return WantItem(queue=queue, lease_id="", lease_us=lease, max=given.max), True


def settings_in(body: bytes, queue: str) -> SetQueue:
    """Check the body with a queue's settings, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    given = decoded(body, _SETTINGS)
    too_long = len((queue + DEAD).encode()) > MAX_KEY_BYTES
    if isinstance(given.max_attempts, int) and (too_long or queue.endswith(DEAD)):
        bound = f"null for a queue whose name ends with {DEAD} or has no room for it"
        raise problems.invalid("/max_attempts", f"must be {bound}, got {given.max_attempts}")
    return SetQueue(
        queue=queue,
        lease_us=lease_us(given.lease),
        max_attempts=given.max_attempts,
        max_items=given.max_items,
        max_bytes=given.max_bytes,
    )


def purge_in(body: bytes, queue: str) -> PurgeQueue:
    """Check the body of a purge, which says nothing, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    decoded(body, _PURGE, optional=True)
    return PurgeQueue(queue=queue)


def redrive_in(body: bytes) -> int | None:
    """Return how many items a body lets come back; None for all.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    most = decoded(body, _REDRIVE, optional=True).max
    return None if isinstance(most, UnsetType) else most


def set_queue(keeper: Keeper, entry: SetQueue, by: Guard) -> Later[QueueView]:
    """Set a queue in full, or forget its settings; return how it is then.

    Raises:
        Problem: ``overloaded``.
    """

    def _set(given: Answer) -> QueueView:
        accepted(keeper.fold, entry, given)
        return _view(keeper, entry.queue)

    return after(keeper.state.propose(entry, by), _set)


def move(keeper: Keeper, entry: PurgeQueue | RedriveItems, by: Guard) -> Later[int]:
    """Drop items, or put some back; return how many."""
    return after(keeper.state.propose(entry, by), _moved)


def _moved(given: Answer) -> int:
    assert isinstance(given.result, Moved), f"a move of items cannot give {given.result!r}"
    return given.result.items


async def redrive(keeper: Keeper, queue: str, most: int | None, by: Guard) -> int:
    """Put dead items of a queue behind those that wait, the oldest first, some in a step; return how many.

    Raises:
        Problem: The caller may not.
    """
    await keeper.state.caught_up()
    dead = keeper.fold.queues.by_name.get(queue + DEAD)
    # Items that die meanwhile stay: takers that fail at once would keep it going for ever.
    left = 0 if dead is None else len(dead.ready)
    left = left if most is None else min(left, most)
    total = 0
    while left:
        try:
            moved = await at_last(move(keeper, RedriveItems(queue=queue, max=min(left, REDRIVEN)), by))
        except problems.Problem:  # the rights were lost between two steps
            if total:
                break
            raise
        total += moved
        left = left - moved if moved else 0  # another request took the rest
        await asyncio.sleep(0)
    return total


async def queue_list(
    keeper: Keeper, prefix: str | None, cursor: str | None, most: int, by: Guard
) -> QueueList:
    """List the queues that the caller may use, by name; a page of them.

    Args:
        keeper: Has the state.
        prefix: What their names begin with; None for all.
        cursor: The name behind which the page begins; None for the first page.
        most: The most elements of the page.
        by: Who asks.

    Raises:
        Problem: ``bad-key`` or ``forbidden``.
        LogUnavailable: The store is away.
    """
    for name in (cursor, prefix):
        if name is not None:
            checked_key(name)
    by.use_listed(prefix)
    await keeper.state.caught_up()
    beginning, behind, covers = prefix or "", cursor or "", by.grant.covers
    found = await first_of(
        keeper.fold.queues.by_name,
        most + 1,
        place=str,
        wanted=lambda name: name.startswith(beginning) and name > behind and covers(name),
    )
    return QueueList(*page_of(found, most, partial(_view, keeper), str))


async def queue_view(keeper: Keeper, queue: str) -> QueueView:
    """Show a queue and its settings.

    Raises:
        Problem: ``unknown-queue``.
        LogUnavailable: The store is away.
    """
    await keeper.state.caught_up()
    if queue not in keeper.fold.queues.by_name:
        raise problems.unknown_queue(queue)
    return _view(keeper, queue)


def _view(keeper: Keeper, name: str) -> QueueView:
    queues, limits = keeper.fold.queues.by_name, keeper.fold.shared.limits
    queue = queues.get(name) or Queue(name)
    first_us = queue.ready[0].put_us if queue.ready else 0
    return QueueView(
        queue=name,
        items=len(queue.ready),
        delayed=len(queue.hidden),
        leased=queue.leased,
        takers=queue.takers,
        oldest=max(keeper.state.now_us() - first_us, 0) / SECOND if first_us else None,
        bytes=queue.size,
        lease=min(queue.lease_us, limits.max_lease_us) / SECOND,
        max_attempts=queue.max_attempts,
        max_items=queue.max_items(limits),
        max_bytes=queue.max_bytes(limits),
        dead=name + DEAD if queue.max_attempts is not None or name + DEAD in queues else None,
    )


async def item_list(keeper: Keeper, queue: str, cursor: str | None, most: int, *, delayed: bool) -> ItemList:
    """List items in the order in which they will be taken, or will be due; a page of them.

    Args:
        keeper: Has the state.
        queue: Their queue.
        cursor: The place behind which the page begins; None for the first page.
        most: The most elements of the page.
        delayed: The hidden ones.

    Raises:
        Problem: ``bad-parameter``.
        LogUnavailable: The store is away.
    """
    behind = None if cursor is None else _place_of(cursor, numbers=4 if delayed else 3)
    await keeper.state.caught_up()
    found = keeper.fold.queues.by_name.get(queue) or Queue(queue)
    if not delayed:
        return ItemList(*page_of(_ready(found, behind), most, _item_view, lambda item: _cursor(item.place)))
    hidden = await first_of(
        found.hidden.values(),
        most + 1,
        place=_due,
        wanted=lambda each: behind is None or _due(each) > behind,
    )
    return ItemList(*page_of(hidden, most, _hidden_view, lambda each: _cursor(_due(each))))


def _place_of(cursor: str, numbers: int) -> tuple[int, ...]:
    """Return the place that a cursor such as ``12-0-3`` names."""
    if re.fullmatch(rf"[0-9]{{1,19}}(-[0-9]{{1,19}}){{{numbers - 1}}}", cursor) is None:
        raise no_cursor(cursor)
    return tuple(map(int, cursor.split("-")))


def _cursor(place: tuple[int, ...]) -> str:
    return "-".join(map(str, place))


def _ready(queue: Queue, behind: tuple[int, ...] | None) -> Iterator[Item]:
    items = queue.in_order()
    start = 0 if behind is None else bisect_right(items, behind, key=_PLACE)
    return (items[place] for place in range(start, len(items)))


def _due(hidden: Hidden) -> tuple[int, ...]:
    return (hidden.until_us, *hidden.item.place)


def _hidden_view(hidden: Hidden) -> ItemView:
    view = _item_view(hidden.item)
    view.due_at = _time(hidden.until_us)
    return view


def _item_view(item: Item) -> ItemView:
    return ItemView(str(item.number), item.text, item.attempts, _time(item.put_us), UNSET)


def _time(at_us: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(0, 0, at_us)
