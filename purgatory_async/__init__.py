"""Delayed operations for asyncio: wait on watch keys until a condition holds or the time is up, exactly once.

    Purgatory          holds the waiting operations; `await purgatory.wait(key, timeout=...)`
    DelayedOperation   subclass it for a condition of your own
    PurgatoryPortal    signals from other threads
    Timer              the timing wheel on an event loop, usable alone
    Observer           is told what happens

See `purgatory_async.timing` for the wheels without a clock, `purgatory_async.testing` for virtual time.
"""

from purgatory_async._errors import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
)
from purgatory_async._handle import TimerHandle
from purgatory_async._operation import DelayedOperation, Outcome
from purgatory_async._portal import PurgatoryPortal
from purgatory_async._purgatory import Purgatory
from purgatory_async._timer import Timer
from purgatory_async.events import Observer

__all__ = [
    "DelayedOperation",
    "Observer",
    "OperationCancelled",
    "OperationExpired",
    "Outcome",
    "Purgatory",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
    "PurgatoryPortal",
    "Timer",
    "TimerHandle",
]
