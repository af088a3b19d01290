"""What this library raises, and the checks of arguments that its classes share.

    Exception
     +-- PurgatoryError        misuse: wrong state, wrong loop, watching inside a check
          +-- OperationExpired    a wait ran out of time (also a TimeoutError)
          +-- OperationCancelled  somebody ended the wait for its key
          +-- PurgatoryClosed     the purgatory or timer is closed, or drains
          +-- PurgatoryFull       max_pending is reached

Bad arguments are plain ``TypeError`` and ``ValueError``, as everywhere in Python.
"""

from typing import Final

__all__ = [
    "CO_COROUTINE",
    "OperationCancelled",
    "OperationExpired",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
    "check_callback",
    "check_exception",
    "check_limit",
]

CO_COROUTINE: Final = 0x80
"""The flag of an async function's code: `inspect.CO_COROUTINE`, without the import."""


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


def check_limit(name: str, limit: int | None) -> None:
    """Refuse a limit that is none.

    Raises:
        TypeError: It is neither ``None`` nor an integer.
        ValueError: It is below 1.
    """
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"{name} must be None or an integer, got {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"{name} must be at least 1, or None for no limit, got {limit}")


def check_callback(name: str, callback: object) -> None:
    """Refuse what cannot be called, and a coroutine function, which would never be awaited.

    Raises:
        TypeError: It is one of these.
    """
    code = getattr(callback, "__code__", None)  # a bound method passes its function's on
    if code is None:
        if not callable(callback):
            raise TypeError(f"{name} must be callable, got {callback!r}")
    elif code.co_flags & CO_COROUTINE:
        raise TypeError(f"{name} must be a plain function, not async, got {callback!r}; let it start a task")


def check_exception(exception: object) -> None:
    """Refuse what cannot be raised.

    Raises:
        TypeError: It is not an exception instance.
    """
    if not isinstance(exception, BaseException):
        raise TypeError(f"exception must be an exception instance, got {exception!r}")
