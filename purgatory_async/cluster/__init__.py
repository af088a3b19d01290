"""One log for several workers: what one of them signals, all of them apply, in the same order.

A `Cluster` carries signals between the purgatories of workers. A `Log` holds entries in one order and keeps them safe:
`MemoryLog` in this process, `SqliteLog` in a file for the processes of one machine, `PostgresLog` and `RedisLog` on a
server for any number of machines.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from purgatory_async.cluster.log import (
    Appended,
    Checkpoint,
    Entry,
    Head,
    Log,
    LogDamaged,
    LogError,
    LogGap,
    LogRefused,
    LogUnavailable,
)
from purgatory_async.cluster.memory import MemoryLog, MemoryStore
from purgatory_async.cluster.sqlite import SqliteLog

if TYPE_CHECKING:
    from purgatory_async.cluster.cluster import Cluster
    from purgatory_async.cluster.entries import Signalled
    from purgatory_async.cluster.postgres import PostgresLog
    from purgatory_async.cluster.redis import RedisLog

__all__ = [
    "Appended",
    "Checkpoint",
    "Cluster",
    "Entry",
    "Head",
    "Log",
    "LogDamaged",
    "LogError",
    "LogGap",
    "LogRefused",
    "LogUnavailable",
    "MemoryLog",
    "MemoryStore",
    "PostgresLog",
    "RedisLog",
    "Signalled",
    "SqliteLog",
]


_EXTRAS = {"Cluster": "cluster", "PostgresLog": "postgres", "RedisLog": "redis", "Signalled": "entries"}


def __getattr__(name: str) -> object:
    """Import what needs an extra when it is asked for; the other logs work without."""
    module = _EXTRAS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        extra = "cluster" if module == "entries" else module
        raise ModuleNotFoundError(
            f'{name} needs {error.name}, which is not installed; run: pip install "purgatory-async[{extra}]"',
            name=error.name,
        ) from error
    globals()[name] = found
    return found
