"""One log for several workers: what one of them signals, all of them apply, in the same order.

A `Log` holds entries in one order and keeps them safe: `MemoryLog` in this process, `SqliteLog` in a file for the
processes of one machine.
"""

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

__all__ = [
    "Appended",
    "Checkpoint",
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
    "SqliteLog",
]
