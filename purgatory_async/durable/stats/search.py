"""Finds pending operations by id, key or prefix, and counts them, for the dashboard."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.waiting.waits import Wait

STEPS: Final = 4096  # operations in one pass

Listed = Callable[[str | None, int], Iterator[Operation]]
"""Lists the operations after a position; see `Listing.after`."""


class Found:
    """One page of the operations that a text matches.

    Args:
        text: The start of an id or of a key; empty for all operations.
        first: How many matches come before the page.
        limit: The most matches on the page.
        prefixes: All keys of a match begin with one of these; none for any keys.

    Attributes:
        total: How many matches there are, on this page or not.
        page: The matches on the page.
    """

    def __init__(self, text: str, first: int, limit: int, prefixes: tuple[str, ...] = ()) -> None:
        self.total = 0
        self.page: list[Operation | Wait] = []
        self._text: Final = text
        self._first: Final = first
        self._limit: Final = limit
        self._prefixes: Final = prefixes

    def add(self, operations: Iterable[Operation | Wait]) -> None:
        """Count those that match, and keep those on the page. O(their keys)."""
        text, prefixes = self._text, self._prefixes
        for operation in operations:
            if prefixes and not all(key.startswith(prefixes) for key in operation.watch_keys):
                continue
            if text and not _matches(operation, text):
                continue
            if self._first <= self.total < self._first + self._limit:
                self.page.append(operation)
            self.total += 1


async def search(listed: Listed, waits: Iterable[Operation | Wait], found: Found) -> None:
    """Search all pending operations, oldest first, then the one-shot waits. O(pending), in passes of a millisecond."""
    after = 0
    while operations := list(islice(listed(None, after), STEPS)):
        found.add(operations)
        after = operations[-1].position
        await asyncio.sleep(0)  # operations may change meanwhile
    snapshot = iter(waits)
    while part := list(islice(snapshot, STEPS)):
        found.add(each for each in part if each.outcome is None)
        await asyncio.sleep(0)


def _matches(operation: Operation | Wait, text: str) -> bool:
    return (isinstance(operation, Operation) and operation.id.startswith(text)) or any(
        key.startswith(text) for key in operation.watch_keys
    )
