"""A purgatory without an observer, with one that does nothing, or with a journal in its own directory."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.events import Event
from purgatory_async.journal import Journal, Sync

__all__ = ["Observed", "begin_and_end", "idle", "journaled", "unobserved", "work"]

Observed = Callable[[], AbstractAsyncContextManager[tuple[Purgatory, Journal | None]]]

TIMEOUT = 30.0
BURST = 20  # operations in one pass of the loop
BOUND = 100_000_000  # no record is dropped here, or the figures would be too good


class Idle:
    """An observer that does nothing: what is left is what it costs to tell it."""

    def notify(self, event: Event) -> None:
        """Do nothing."""


@asynccontextmanager
async def unobserved() -> AsyncIterator[tuple[Purgatory, None]]:
    """No observer."""
    async with Purgatory() as purgatory:
        yield purgatory, None


@asynccontextmanager
async def idle() -> AsyncIterator[tuple[Purgatory, None]]:
    """An observer that does nothing."""
    async with Purgatory(observer=Idle()) as purgatory:
        yield purgatory, None


def journaled(sync: Sync, *, segment_bytes: int = 1 << 40) -> Observed:
    """A journal with that policy, which must not drop anything."""

    @asynccontextmanager
    async def observed() -> AsyncIterator[tuple[Purgatory, Journal]]:
        timer = Timer()
        with (
            tempfile.TemporaryDirectory() as directory,
            Journal(
                directory, timer=timer, sync=sync, max_buffered=BOUND, segment_bytes=segment_bytes
            ) as journal,
        ):
            async with Purgatory(timer=timer, observer=journal) as purgatory:
                yield purgatory, journal
            assert not journal.dropped, f"{journal!r} measured less than there was"

    return observed


def begin_and_end(purgatory: Purgatory, number: int) -> None:
    """One operation from its submission to its completion by its key: three records."""
    key = f"order:{number}"
    purgatory.try_complete_else_watch(DelayedOperation[None](TIMEOUT), (key,))
    purgatory.complete_for_key(key)


async def work(purgatory: Purgatory, operations: int, pause_s: float = 0) -> None:
    """Begin and end so many operations, some of them in each pass of the loop, which then rests so long."""
    for number in range(operations):
        begin_and_end(purgatory, number)
        if number % BURST == 0:
            await asyncio.sleep(pause_s)
