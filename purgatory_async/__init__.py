"""Delayed operations for asyncio: wait on watch keys until a condition holds or a timeout expires.

    Purgatory          holds the pending operations; `await purgatory.wait(key, timeout=...)`
    DelayedOperation   subclass it for your own condition
    PurgatoryPortal    signals from other threads
    Timer              the timing wheel on an event loop, usable alone
    Observer           receives events
    compiled           whether the compiled core runs

See `purgatory_async.timing` for the wheels without a clock, `purgatory_async.testing` for virtual time.
"""

from purgatory_async.core.operation import DelayedOperation, Outcome
from purgatory_async.errors import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
)
from purgatory_async.events import Observer
from purgatory_async.loop.portal import PurgatoryPortal
from purgatory_async.loop.purgatory import Purgatory
from purgatory_async.loop.timer import Timer
from purgatory_async.loop.timer_handle import TimerHandle
from purgatory_async.native import compiled

__version__ = "0.2.0"  # the build, the service and the commands read it here

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
    "compiled",
]
