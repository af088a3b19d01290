"""Lists operations in the order of their submission, page by page."""

import asyncio
import re
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.fitting import fitting
from purgatory_async.durable.documents.messages import OperationList
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.state import Guard
from purgatory_async.durable.verbs.keeper import Keeper
from purgatory_async.durable.verbs.pages import STEPS, first_of, page_of

ENDS: Final = ("pending", "ended", "all", "completed", "expired", "cancelled", "failed", "closed")
ID_PREFIX: Final = "[A-Za-z0-9._~-]{0,128}"
_POSITION: Final = attrgetter("position")


class Listed(NamedTuple):
    """Which operations a list has.

    Attributes:
        key: Only its watchers; None for all.
        state: One of `ENDS`.
        id_prefix: What their ids begin with.
    """

    key: str | None
    state: str
    id_prefix: str

    def check(self) -> None:
        """Check what is given.

        Raises:
            Problem: ``bad-parameter`` or ``bad-key``.
        """
        checked_state(self.state)
        if re.fullmatch(ID_PREFIX, self.id_prefix) is None:
            raise problems.bad_parameter("id_prefix", self.id_prefix, ID_PREFIX)
        if self.key is not None:
            checked_key(self.key)


async def list_page(keeper: Keeper, by: Guard, listed: Listed, behind: int, limit: int) -> OperationList:
    """Return a page of the operations that its reader may see; the state must have caught up.

    O(limit) for pending ones, or until as many are found; O(all that are kept) for ended ones.

    Args:
        keeper: Has the state.
        by: Who reads.
        listed: Which operations, checked.
        behind: The position of the last one of the page before; 0 for the first page.
        limit: The most of them.
    """
    key, state, id_prefix = listed
    grant = by.grant

    def _wanted(operation: Operation) -> bool:
        """Whether an operation is in the list."""
        return operation.id.startswith(id_prefix) and grant.covers_all(operation.watch_keys)

    if state == "pending":
        narrowed = bool(id_prefix or grant.prefixes)
        found = await _pending(keeper, key, behind, limit + 1, _wanted if narrowed else None)
    else:
        found = await first_of(
            keeper.fold.operations.by_id.values(),
            limit + 1,
            place=_POSITION,
            wanted=lambda each: (
                each.position > behind
                and is_in(each, state)
                and key in {None, *each.watch_keys}
                and _wanted(each)
            ),
        )
    now_us = keeper.state.now_us()
    return OperationList(
        *page_of(
            found,
            limit,
            lambda operation: msgspec.Raw(msgspec.json.encode(fitting(operation.view(now_us)))),
            lambda operation: str(operation.position),
        )
    )


async def _pending(
    keeper: Keeper, key: str | None, behind: int, count: int, wanted: Callable[[Operation], bool] | None
) -> list[Operation]:
    """Return the first pending operations behind a place that are wanted; None for all."""
    if wanted is None:
        return list(islice(keeper.listed(key, behind), count))
    found: list[Operation] = []
    # They may be few of very many, which are looked at in passes of a millisecond.
    while len(found) < count and (some := list(islice(keeper.listed(key, behind), STEPS))):
        found += filter(wanted, some)
        behind = some[-1].position
        await asyncio.sleep(0)
    return found


def is_in(operation: Operation, state: str) -> bool:
    """Whether a list of a state has an operation."""
    return state in {"all", operation.state, "ended" if operation.outcome else ""}


def checked_state(state: str | None) -> str:
    """Return a state that lists are narrowed to; "pending" for None.

    Raises:
        Problem: ``bad-parameter``.
    """
    if state is None:
        return ENDS[0]
    if state not in ENDS:
        raise problems.bad_parameter("state", state, f"one of {', '.join(ENDS)}")
    return state
