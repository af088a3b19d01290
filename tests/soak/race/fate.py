"""What becomes of an item, and of a cancellation, in one round."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum

__all__ = ["Fate", "fate_of", "passes", "until_done"]

PATIENCE = 10  # passes; a task wakes in one, the task around a task in four


class Fate(StrEnum):
    """Where the item of a round is in the end."""

    DELIVERED = "delivered"  # the taker has it
    RETURNED = "returned"  # it was given back, or never given, and the next taker has it
    LOST = "lost"
    DOUBLED = "doubled"  # both have it


def fate_of(item: object, takers: Sequence[asyncio.Task[object]]) -> Fate:
    """Look at the taker and the next one, both done."""
    first, second = (_got(taker, item) for taker in takers)
    if first:
        return Fate.DOUBLED if second else Fate.DELIVERED
    return Fate.RETURNED if second else Fate.LOST


def _got(taker: asyncio.Task[object], item: object) -> bool:
    if taker.cancelled():
        return False
    failure = taker.exception()
    if isinstance(failure, TimeoutError):
        return False
    if failure is not None:
        raise failure
    return taker.result() is item


async def passes(count: int) -> None:
    """Let the loop make so many passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_done(taker: asyncio.Task[object]) -> None:
    """Let a task run on that has nothing more to wait for; one that waits all the same is cancelled."""
    for _ in range(PATIENCE):
        if taker.done():
            return
        await asyncio.sleep(0)
    while not taker.done():  # what it waits for is lost; and it may swallow a cancellation or two
        taker.cancel()
        await passes(PATIENCE)
