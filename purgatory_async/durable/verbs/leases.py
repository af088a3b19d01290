"""Leases: from the bodies that end and extend them to entries of the log, and from the state to what readers see."""

import asyncio
from functools import partial
from typing import Final

import msgspec

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.documents.queue_messages import (
    MAX_BATCH,
    ExtendBody,
    Extended,
    Leased,
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
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.state import Guard, State
from purgatory_async.durable.verbs.durations import delay_us, lease_us
from purgatory_async.durable.verbs.keeper import Keeper
from purgatory_async.durable.verbs.pages import first_of, no_cursor, page_of
from purgatory_async.durable.waiting.takers import Taken

_RETURN: Final = msgspec.json.Decoder(ReturnBody)
_EXTEND: Final = msgspec.json.Decoder(ExtendBody)
_LEASES: Final = msgspec.json.Decoder(LeasesBody)
_MAX_DIGITS: Final = 19  # as 64 bits

_Place = tuple[int, str]  # when a lease ends, and its id


def leased(taken: Taken, state: State) -> list[Leased]:
    """Show what a taker has. O(leases)."""
    # Since an earlier request took them some of their time has passed.
    since_us = state.now_us() if taken.replayed else None
    return [_leased(each, since_us) for each in taken.leases]


def _leased(lease: Lease, since_us: int | None) -> Leased:
    item = lease.item
    left_us = lease.lease_us if since_us is None else max(lease.until_us - since_us, 0)
    return Leased(lease.id, str(item.number), item.text, lease.attempts, left_us / SECOND)


def return_in(body: bytes, lease_id: str) -> EndLease:
    """Check the body of a return, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    delay = decoded(body, _RETURN, optional=True).delay
    return EndLease(lease_id=lease_id, back=True, delay_us=delay_us(delay))


def extension_in(body: bytes, lease_id: str) -> ExtendLease:
    """Check the body of an extension, and return its entry.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    return ExtendLease(lease_id=lease_id, lease_us=lease_us(decoded(body, _EXTEND, optional=True).lease))


def change(keeper: Keeper, entry: EndLease | ExtendLease, by: Guard) -> Later[results.Result]:
    """End or extend a lease that the caller may change.

    Raises:
        Problem: ``unknown-lease``, ``lease-expired``, or ``forbidden`` for one that it may only see.
    """
    if by.grant.prefixes:  # the fold compares owners, and no prefixes
        return after(keeper.caught_up(), lambda _: _change_own(keeper, entry, by))
    return _change_own(keeper, entry, by)


def _change_own(keeper: Keeper, entry: EndLease | ExtendLease, by: Guard) -> Later[results.Result]:
    grant = by.grant
    # A lease that is not yet known here is refused by the fold, as unknown. Its owner never changes.
    lease = keeper.fold.queues.leases.get(entry.lease_id)
    if lease is not None:
        if not grant.sees(lease.owner, lease.queue):
            raise problems.unknown_lease(lease.id)
        if not grant.may_change(lease.owner):
            raise problems.not_own("lease", lease.id, lease.owner)
    entry.owner = grant.bound_to
    return keeper.change_lease(entry, by)


def extend(keeper: Keeper, entry: ExtendLease, by: Guard) -> Later[Extended]:
    """Count a lease again from now on; raises as `change`."""
    return after(change(keeper, entry, by), partial(_extended, entry.lease_id))


def _extended(lease_id: str, result: results.Result) -> Extended:
    assert isinstance(result, results.Extended), f"an extension cannot give {result!r}"
    return Extended(lease_id, result.left_us / SECOND)


def leases_in(body: bytes) -> list[str]:
    """Return the ids of the leases in a body.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    check_list(body, "leases", MAX_BATCH)
    return decoded(body, _LEASES).leases


async def end_each(keeper: Keeper, leases: list[str], by: Guard, *, back: bool) -> LeasesEnded:
    """End leases, each for itself; with ``back`` their items go back to their places."""

    async def _end(lease_id: str) -> results.Result:
        return await at_last(change(keeper, EndLease(lease_id=lease_id, back=back), by))

    found = await asyncio.gather(*map(_end, leases), return_exceptions=True)
    errors = list[LeaseFault]()
    for number, each in enumerate(found):
        if isinstance(each, problems.Problem):
            document = each.document
            errors.append(LeaseFault(f"/leases/{number}", document.type, document.status))
        elif isinstance(each, BaseException):
            raise each
    return LeasesEnded(len(leases) - len(errors), errors)


async def lease_list(
    keeper: Keeper, queue: str | None, cursor: str | None, most: int, by: Guard
) -> LeaseList:
    """List the leases that the caller may see, the first to end first; a page of them.

    Args:
        keeper: Has the state.
        queue: Its leases only; None for all queues.
        cursor: The place behind which the page begins; None for the first page.
        most: The most elements of the page.
        by: Who asks.

    Raises:
        Problem: ``bad-key``, ``forbidden`` or ``bad-parameter``.
        LogUnavailable: The store is away.
    """
    if queue is not None:
        checked_key(queue)
    by.use_listed(queue)
    behind = None if cursor is None else _place_of(cursor)
    await keeper.state.caught_up()
    now_us, grant = keeper.state.now_us(), by.grant

    def wanted(lease: Lease) -> bool:
        """Whether a lease is in the list, behind the place."""
        if queue not in {None, lease.queue} or not grant.sees(lease.owner, lease.queue):
            return False
        return behind is None or _place(lease) > behind

    def show(lease: Lease) -> LeaseView:
        """Return a lease as lists show it."""
        left = max(lease.until_us - now_us, 0) / SECOND
        return LeaseView(lease.id, lease.queue, str(lease.item.number), lease.attempts, lease.owner, left)

    found = await first_of(keeper.fold.queues.leases.values(), most + 1, place=_place, wanted=wanted)
    return LeaseList(*page_of(found, most, show, _cursor))


def _place(lease: Lease) -> _Place:
    return lease.until_us, lease.id


def _cursor(lease: Lease) -> str:
    return f"{lease.until_us}-{lease.id}"


def _place_of(cursor: str) -> _Place:
    number, hyphen, lease_id = cursor.partition("-")
    if not hyphen or not number.isdecimal() or not number.isascii() or len(number) > _MAX_DIGITS:
        raise no_cursor(cursor)
    return int(number), lease_id
