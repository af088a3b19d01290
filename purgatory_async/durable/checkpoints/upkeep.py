"""What is changed of a log from outside: its level, and its epoch after a backup was restored."""

import os
from contextlib import closing, suppress
from typing import NamedTuple

from purgatory_async.cluster import Log, SqliteLog
from purgatory_async.cluster.server_log import ServerLog
from purgatory_async.durable.checkpoints.loading import fold_until, folded
from purgatory_async.durable.fold import fold as folding
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SetLevel
from purgatory_async.durable.urls import Store, opened


async def raise_level(log: Log, level: int) -> int:
    """Raise the level of an open log, and return the level before. Does nothing if it has that level.

    Replace all workers first: one that does not know the level exits. Safe to repeat after an error.

    Raises:
        ValueError: The level is below the log's, or above what this program knows.
        LogError: As `folded`, or the entry may be in the log or not.
    """
    if level > folding.LEVEL:
        raise ValueError(
            f"level must be at most {folding.LEVEL} for this program, got {level}; upgrade it first"
        )
    with closing(await folded(log)) as fold:
        before = fold.level
        if level < before:
            raise ValueError(
                f"level must be at least the log's, {before}, got {level}: its entries stay as they are"
            )
        if level > before:
            appended = await log.append([encode(SetLevel(level=level))])
            await fold_until(log, fold, appended.first)
    return before


class Restored(NamedTuple):
    """The epoch that a store has now, and the newest position of what was restored."""

    epoch: str
    position: int


async def mark_restored(store: Store) -> Restored:
    """Give a log another epoch; readers then get a gap for every place from before. No worker must run.

    The lock file of SQLite may remember more than the backup has; that is forgotten.

    Raises:
        LogDamaged: What was restored is no log.
        LogError: The engine is away, or refuses.
    """
    if store.engine == "sqlite":
        with suppress(FileNotFoundError):
            os.truncate(f"{store.target}.lock", 0)
    async with opened(store) as (log, head):
        assert isinstance(log, SqliteLog | ServerLog), f"{log!r} must be one of a URL"
        return Restored(await log.change_epoch(), head.position)
