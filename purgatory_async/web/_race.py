"""A wait that others may end: the client by leaving, the server by stopping.

It runs in its caller's own task, so a cancellation from outside reaches it as if nothing stood in between. There are
two ways to end it, because what is lost by an untimely end is not the same:

- The client left: the task is cancelled as `Task.cancel` does, also when what it waits for has come in this very loop
  pass. There is nobody left to have it; ``HandOff.take`` takes such a cancellation as the order to put its item back.
- The server stops: the client is still there. An anyio scope lets a task whose answer has come have it first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, NoReturn

from anyio import CancelScope

Wait = Callable[..., Awaitable[object]]


class ClientLeft(Exception):  # noqa: N818 - an event, not a fault
    """The client closed its connection: there is nobody to answer."""


class ServerStops(Exception):  # noqa: N818 - an event, not a fault
    """The server was told to stop, and the wait with it."""


class Race:
    """One wait of the current task, and whoever may end it before its time."""

    __slots__ = ("_before", "_cancelled", "_reason", "_scope", "_task", "_waiting")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._scope = CancelScope()
        self._reason: BaseException | None = None
        self._waiting = False
        self._cancelled = False

    async def run(self, wait: Wait, args: tuple[object, ...], timeout: float) -> object:
        """Wait.

        Args:
            wait: Called with ``args`` and ``timeout``, before anything else can run.
            args: Its positional arguments.
            timeout: Seconds.

        Returns:
            What it waited for.

        Raises:
            ClientLeft: After `leave`.
            ServerStops: After `stop`.
            BaseException: After `fail`, what was given there; else what ``wait`` raised.
            TypeError: What ``wait`` returned cannot be awaited.
        """
        if self._reason is not None:
            self._raise_reason()
        if not callable(wait):
            if isinstance(wait, Coroutine):
                wait.close()  # or Python would warn of it, and not say what to do
            raise TypeError(
                f'wait must be an async function that is not called yet, as builds.wait, "build:7", got {wait!r}'
            )
        with self._scope, self:
            waiting = wait(*args, timeout=timeout)
            if not hasattr(waiting, "__await__"):
                raise TypeError(f"wait must be an async function, but {wait!r} returned {waiting!r}")
            return await waiting
        raise ServerStops

    def leave(self) -> None:
        """End it: the client left."""
        self.fail(ClientLeft())

    def fail(self, error: BaseException) -> None:
        """End it with an exception. The first reason counts; after its end nothing happens."""
        if self._reason is None:
            self._reason = error
            if self._waiting:
                self._cancelled = self._task.cancel()

    def stop(self) -> None:
        """End it, unless its answer is on the way already: the server stops."""
        self._scope.cancel()

    def __enter__(self) -> None:
        self._waiting = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting = False
        # As `asyncio.timeout` does: our cancellation is taken back however the wait took it, and what is still
        # asked for then is somebody else's, who must get it.
        if (
            self._cancelled
            and self._task.uncancel() <= self._before
            and isinstance(exception, asyncio.CancelledError)
        ):
            self._raise_reason()

    def _raise_reason(self) -> NoReturn:
        """Raise it and let go of it: its traceback leads to us, and what is in a cycle only the collector frees."""
        reason, self._reason = self._reason, None
        assert reason is not None, "there is a reason to end"
        try:
            raise reason from None
        finally:
            del reason
