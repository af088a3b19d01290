"""Pages of lists: at most so many elements and bytes, and where the next page begins."""

import asyncio
from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.fitting import ANSWER_BYTES

MAX_LIMIT: Final = 1000
"""The most elements of a page."""
STEPS: Final = 2048
"""Elements that are looked at in one pass of the loop: some milliseconds."""
# What a page has around its elements: the names of its members and the next cursor.
_AROUND: Final = 2048

T = TypeVar("T")
V = TypeVar("V")


async def first_of(
    found: Iterable[T], count: int, *, place: Callable[[T], Any], wanted: Callable[[T], bool]
) -> list[T]:
    """Return the first elements, as of now, in order. O(all), in passes of the loop.

    Those that end meanwhile stay: without them a full page could look like the last one.

    Args:
        found: All elements, in any order.
        count: The most of them.
        place: Returns the key by which they are ordered.
        wanted: Whether an element belongs to the list, after the cursor.
    """
    whole, first = list(found), list[T]()
    for start in range(0, len(whole), STEPS):
        if start:
            await asyncio.sleep(0)
        first = nsmallest(count, chain(first, filter(wanted, whole[start : start + STEPS])), key=place)
    return first


def page_of(
    found: Iterable[T], limit: int, show: Callable[[T], V], place: Callable[[T], str]
) -> tuple[list[V], str | msgspec.UnsetType]:
    """Return the elements of a page: as many as an answer holds, but at least one. O(elements and their bytes).

    Args:
        found: The elements from the page's beginning.
        limit: The most of them.
        show: Returns an element as answers show it.
        place: Returns the cursor behind an element.

    Returns:
        The elements, and the cursor of the next page; `UNSET` on the last.
    """
    views, room, cursor = list[V](), ANSWER_BYTES - _AROUND, ""
    for each in found:
        if len(views) == limit:
            return views, cursor
        view = show(each)
        room -= len(msgspec.json.encode(view)) + 1  # and a comma
        if room < 0 and views:
            return views, cursor
        views.append(view)
        cursor = place(each)
    return views, msgspec.UNSET


def no_cursor(cursor: str) -> problems.Problem:
    """Return the problem of a cursor that no page has named."""
    return problems.bad_parameter("cursor", cursor, "the next of an answer")
