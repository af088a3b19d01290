"""Report exceptions that have no caller.

The core does not import asyncio; `purgatory_async.loop` sets how to find the running loop.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol


class Loop(Protocol):
    """What a report needs of an event loop."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Handle an exception that has no caller."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Call back in the next turn."""


class Surroundings:
    """What the core knows of its event loop.

    Attributes:
        running_loop: Returns the loop that runs in the calling thread, or None.
    """

    running_loop: Callable[[], Loop | None]

    def __init__(self) -> None:
        self.running_loop = lambda: None


surroundings: Final = Surroundings()


def report(message: str, exception: BaseException, source: object) -> None:
    """Hand an exception to the running loop's exception handler; without a loop to `sys.unraisablehook`.

    Args:
        message: Names the source.
        exception: The exception.
        source: The object whose code raised it; the handler's context has it as ``source``.
    """
    loop = surroundings.running_loop()
    if loop is not None:
        loop.call_exception_handler({"message": message, "exception": exception, "source": source})
    else:
        _Unraisable(message, exception)
    del exception  # the finalizer's frame leads to this one, and the exception to both: no cycle through it


def call_soon(callback: Callable[[], object]) -> None:
    """Call back in the running loop's next turn; do nothing without a running loop."""
    loop = surroundings.running_loop()
    if loop is not None:
        loop.call_soon(callback)


class _Finalizer:
    """Raises the exception when called; the hook prints its repr, the message."""

    __slots__ = ("_exception", "_message")

    def __init__(self, message: str, exception: BaseException) -> None:
        self._message = message
        self._exception = exception

    def __call__(self) -> None:
        try:
            raise self._exception
        finally:
            del self  # as in `report`

    def __repr__(self) -> str:
        return f"<{self._message}>"


class _Unraisable:
    """Dropped at once; its finalizer raises. Only the interpreter can make the default hook's argument."""

    __slots__ = ("_finalizer",)

    def __init__(self, message: str, exception: BaseException) -> None:
        self._finalizer = _Finalizer(message, exception)

    @property
    def __del__(self) -> _Finalizer:
        return self._finalizer
