"""A store after a backup was restored: it gets another epoch, so that every earlier reader gets a gap."""

import os
from contextlib import suppress
from typing import NamedTuple

from purgatory_async.cluster import SqliteLog
from purgatory_async.cluster.server_log import ServerLog
from purgatory_async.durable.urls import Store, opened

__all__ = ["Restored", "mark_restored"]


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
