"""Saves a checkpoint, in a process of its own: the serving loops do not pause.

It loads the newest checkpoint, folds to the end, saves what it has, and trims. Killed at any moment it leaves nothing
visible, and the next one removes what it left.

    PURGATORY_STORE=URL python -m purgatory_async.durable.checkpoints.checkpointing always

The URL is in the environment, because other users can read a process's arguments. Prints a `Saved` as JSON; null if
another process is at work.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from typing import Final

import msgspec

from purgatory_async.clock import monotonic
from purgatory_async.cluster import Log, LogError
from purgatory_async.durable.checkpoints.loading import folded, pieces
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import Tick
from purgatory_async.durable.urls import Store, Sync, opened, parsed, sole

KEEP: Final = 100_000
"""Entries before the checkpoint that stay in the log, for slow workers and for waits with ``since``."""
MAX_BYTES: Final = 4 << 30
"""The most bytes of a checkpoint."""
STORE_VARIABLE: Final = "PURGATORY_STORE"
FAILED: Final = 1
NICENESS: Final = 10


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint.

    Attributes:
        position: The last position in it; 0 if the log is empty, so that there was nothing to save.
        entries: How many were applied since the checkpoint before.
        size: Its bytes.
        seconds: How long it took, from loading to trimming.
    """

    position: int
    entries: int
    size: int
    seconds: float


async def checkpoint(store: Store, *, sync: Sync = "always", keep: int = KEEP) -> Saved | None:
    """Save a checkpoint of a log, unless another process is doing so; None then.

    Args:
        store: Where the log is.
        sync: As for `log_of`.
        keep: How many entries before the checkpoint stay in the log.

    Raises:
        LogDamaged: The log, or its checkpoint and the one before, is damaged; nothing is saved.
        LogError: The engine is away, or refuses; nothing is visible unless everything was saved.
    """
    async with sole(store) as alone:
        if not alone:
            return None
        async with opened(store, sync=sync) as (log, _):
            return await save(log, keep)


async def save(log: Log, keep: int = KEEP, *, max_bytes: int = MAX_BYTES) -> Saved:
    """Save a checkpoint of an open log, and trim. Raises as `checkpoint`; a larger one than allowed is `LogError`."""
    began = monotonic()
    newest = await log.load()
    before, size = 0 if newest is None else newest.position, 0

    async def _parts() -> AsyncIterator[bytes]:
        nonlocal size
        async for piece in pieces(fold):
            size += len(piece)
            if size > max_bytes:
                raise LogError(
                    f"a checkpoint must be at most {max_bytes} bytes, got more at position {fold.position}; the log is "
                    "not trimmed: lower --max-pending, --max-items or --retention, or divide the keys among several "
                    "stores"
                )
            yield piece
        # An append fails if the engine has lost what this process has read, as a failover does meanwhile. So the
        # checkpoint holds nothing that is not in the log.
        await log.append([encode(Tick())])

    with closing(await folded(log)) as fold:
        if fold.position > before:
            await log.save(fold.position, _parts(), keep)
    return Saved(fold.position, fold.position - before, size, round(monotonic() - began, 3))


def main(arguments: Sequence[str]) -> int:
    """Save a checkpoint of the log in the environment; ``arguments`` are the sync setting. Returns the exit code."""
    with suppress(OSError):
        os.nice(NICENESS)
    (sync,) = arguments
    try:
        saved = asyncio.run(
            checkpoint(parsed(os.environ[STORE_VARIABLE]), sync="os" if sync == "os" else "always")
        )
    except (LogError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    sys.stdout.write(f"{msgspec.json.encode(saved).decode()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
