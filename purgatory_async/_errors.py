"""What this library raises.

    Exception
     +-- PurgatoryError        misuse: wrong state, wrong loop, watching inside a check
          +-- OperationExpired    a wait ran out of time (also a TimeoutError)
          +-- OperationCancelled  somebody ended the wait for its key
          +-- PurgatoryClosed     the purgatory or timer is closed, or drains
          +-- PurgatoryFull       max_pending is reached

Bad arguments are plain ``TypeError`` and ``ValueError``, as everywhere in Python.
"""

__all__ = [
    "OperationCancelled",
    "OperationExpired",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
]


class PurgatoryError(Exception):
    """Base of this library's own errors; raised itself where a call does not fit the state of things."""


class OperationExpired(PurgatoryError, TimeoutError):
    """A wait's time was up before anything completed it.

    Raised by `Purgatory.wait`. It is a `TimeoutError` too, so ``except TimeoutError`` catches it.
    """


class OperationCancelled(PurgatoryError):
    """Somebody ended the wait with `Purgatory.cancel_for_key`.

    This is not `asyncio.CancelledError`: the waiting task itself goes on.
    """


class PurgatoryClosed(PurgatoryError):
    """The purgatory or timer takes nothing new: it is closed, or it drains."""


class PurgatoryFull(PurgatoryError):
    """As many operations or timers are pending as ``max_pending`` allows; nothing was registered."""
