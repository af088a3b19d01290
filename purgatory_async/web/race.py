"""A wait that ends early when the client disconnects or the server stops.

It runs in its caller's own task, so a cancellation from outside reaches it directly. The two ends differ:

- The client disconnects: `Task.cancel` cancels the task, also if its value came in the same loop pass. No client is
  left to receive the value; ``HandOff.take`` then puts its item back.
- The server stops: the client can still receive the value. An anyio scope lets a task that has its value return it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from anyio import CancelScope

from purgatory_async.errors import Interruption
from purgatory_async.web.asgi import Receive

__all__ = ["ClientLeft", "Interruptible", "Race", "ServerStops", "Stalled", "WaitFunction", "listening"]

WaitFunction = Callable[..., Awaitable[object]]


class ClientLeft(Interruption):
    """The client closed its connection: the answer has no receiver."""


class ServerStops(Interruption):
    """The server stops, and the wait with it."""


class Stalled(Interruption):
    """The client took nothing for too long."""


class Interruptible:
    """Waits of the current task, one at a time, that other code may end with an exception.

    Each is a ``with`` block, which raises the exception.
    """

    __slots__ = ("_before", "_cancelled", "_reason", "_task", "_waiting")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._reason: BaseException | None = None
        self._waiting = False
        self._cancelled = False

    def leave(self) -> None:
        """End the wait: the client disconnected."""
        self.fail(ClientLeft())

    def fail(self, error: BaseException) -> None:
        """End the wait, or the next one, with an exception. Only the first call for a wait counts."""
        if self._reason is None:
            self._reason = error
            if self._waiting:
                self._cancelled = self._task.cancel()

    def __enter__(self) -> None:
        if self._reason is not None:
            self._raise_reason()
        self._waiting = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting = False
        cancelled, self._cancelled = self._cancelled, False
        # As `asyncio.timeout` does: take this wait's cancellation back; any other request to cancel goes on.
        if (
            cancelled
            and self._task.uncancel() <= self._before
            and isinstance(exception, asyncio.CancelledError)
        ):
            self._raise_reason()

    def _raise_reason(self) -> NoReturn:
        """Raise the reason and drop it: its traceback refers to this wait, and only the collector frees a cycle."""
        reason, self._reason = self._reason, None
        assert reason is not None, "there is a reason to end"
        try:
            raise reason from None
        finally:
            del reason


class Race(Interruptible):
    """One wait of the current task that other code may end early."""

    __slots__ = ("_scope",)

    def __init__(self) -> None:
        super().__init__()
        self._scope = CancelScope()

    async def run(self, wait: WaitFunction, args: tuple[object, ...], timeout: float) -> object:
        """Return the result of ``wait(*args, timeout=timeout)``, called before other code on the loop runs.

        Raises:
            ClientLeft: After `leave`.
            ServerStops: After `stop`.
            BaseException: The exception given to `fail`; else what ``wait`` raised.
            TypeError: ``wait`` did not return an awaitable.
        """
        with self._scope, self:
            if not callable(wait):
                if isinstance(wait, Coroutine):
                    wait.close()  # or Python would warn, without the remedy
                raise TypeError(
                    f'wait must be an async function that is not called yet, as builds.wait, "build:7", got {wait!r}'
                )
            waiting = wait(*args, timeout=timeout)
            if not hasattr(waiting, "__await__"):
                raise TypeError(f"wait must be an async function, but {wait!r} returned {waiting!r}")
            return await waiting
        raise ServerStops

    def stop(self) -> None:
        """End the wait, unless it has its value already: the server stops."""
        self._scope.cancel()


@contextmanager
def listening(receive: Receive, race: Interruptible) -> Iterator[None]:
    """End a wait when the client disconnects while the context is open; the request's body must have been read."""
    listener = asyncio.get_running_loop().create_task(_listen(receive, race), name="long poll: listener")
    try:
        yield
    finally:
        listener.cancel()


async def _listen(receive: Receive, race: Interruptible) -> None:
    """End the wait when the client disconnects; ignore what it still sends."""
    body_read = False
    try:
        while (message := await receive())["type"] != "http.disconnect":
            if body_read:
                return  # a test stand-in that repeats its message: the loop would never end
            body_read = not message.get("more_body", False)
    except OSError:
        pass  # some servers report a disconnect this way
    except Exception as error:  # noqa: BLE001 - the waiting task raises it to its caller
        race.fail(error)
        return
    race.leave()
