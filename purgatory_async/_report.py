"""Where an exception goes when nobody waits for it."""

import asyncio
from collections.abc import Callable

__all__ = ["call_soon", "report"]


def report(message: str, exception: BaseException, source: object) -> None:
    """Hand an exception that has no caller to the running loop's exception handler.

    Args:
        message: What was going on, naming the source. Without a running loop `sys.unraisablehook` is told.
        exception: What was raised.
        source: The object whose code raised it; it is in the handler's context as ``source``.
    """
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_exception_handler({"message": message, "exception": exception, "source": source})
    else:
        _Unraisable(message, exception)


def call_soon(callback: Callable[[], object]) -> None:
    """Call back in the running loop's next turn; without a running loop this does nothing."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_soon(callback)


class _Finalizer:
    """Raises the exception when called, and shows the message where the hook prints what it called."""

    __slots__ = ("_exception", "_message")

    def __init__(self, message: str, exception: BaseException) -> None:
        self._message = message
        self._exception = exception

    def __call__(self) -> None:
        raise self._exception

    def __repr__(self) -> str:
        return f"<{self._message}>"


class _Unraisable:
    """Dropped at once; its finalizer raises, which is the only door to `sys.unraisablehook`.

    The default hook takes nothing but an argument type that only the interpreter can make.
    """

    __slots__ = ("_finalizer",)

    def __init__(self, message: str, exception: BaseException) -> None:
        self._finalizer = _Finalizer(message, exception)

    @property
    def __del__(self) -> _Finalizer:
        return self._finalizer
