"""One log for several workers: what one of them signals, all of them apply, in the same order.

A `Cluster` carries signals between the purgatories of workers. A `Log` holds entries in one order and keeps them safe:
`MemoryLog` in this process, `SqliteLog` in a file for the processes of one machine.
"""

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
    "Signalled",
    "SqliteLog",
]


def __getattr__(name: str) -> object:
    """Import what needs msgspec when it is asked for; the logs work without."""
    if name not in {"Cluster", "Signalled"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from purgatory_async.cluster.cluster import Cluster  # noqa: PLC0415
        from purgatory_async.cluster.entries import Signalled  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name} needs {error.name}, which is not installed; run: pip install "purgatory-async[cluster]"',
            name=error.name,
        ) from error
    globals().update(Cluster=Cluster, Signalled=Signalled)
    return globals()[name]
