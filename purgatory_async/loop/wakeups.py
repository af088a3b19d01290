"""Shared by the purgatories and timers on one event loop: calls in its next turn, and wakeups in slices.

Waking 100 000 tasks at once stalls a loop for 90 ms. In slices of 256 no pass takes half a millisecond, and all tasks
wake sooner, because the queue of ready callbacks stays small (python -m bench.core --only herd).
"""

import asyncio
import contextvars
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final

from purgatory_async.native import also_compiled

SLICE: Final = 256
"""Maximum of waiters woken, or deadlines handled, in one pass of the loop."""

_Future = asyncio.Future[None]


@also_compiled
class Dispatcher:
    """Queues the library's calls and wakeups on one event loop, to which it keeps a weak reference."""

    __slots__ = ("__weakref__", "_left", "_loop", "_queued", "_sleepers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._sleepers: deque[_Future] = deque()  # woken in later slices, in order
        self._left = SLICE  # direct wakeups left before the next slice
        self._queued = 0

    @property
    def busy(self) -> bool:
        """Whether the loop has a call of the library queued."""
        return self._queued > 0

    def soon(self, callback: Callable[[], object]) -> None:
        """Call back in the loop's next turn, in an empty context; never if the loop has closed."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            self._queued += 1
            loop.call_soon(self._run, callback, context=contextvars.Context())

    def wake(self, waiters: _Future | dict[_Future, None]) -> None:
        """Wake waiters in order; the first `SLICE` of a turn at once, the rest in slices."""
        if type(waiters) is dict:
            for waiter in waiters:
                self.wake(waiter)
        elif self._left:
            self._left -= 1
            try:
                waiters.set_result(None)  # type: ignore[union-attr]  # not a dict: one future
            except asyncio.InvalidStateError:
                pass  # cancelled
            except RuntimeError:
                _check_closed(waiters)  # type: ignore[arg-type]
            if not self._left:
                self.soon(self._wake_slice)
        else:
            self._sleepers.append(waiters)  # type: ignore[arg-type]

    def _wake_slice(self) -> None:
        sleepers = self._sleepers
        for _ in range(min(SLICE, len(sleepers))):
            waiter = sleepers.popleft()
            if not waiter.done():
                try:
                    waiter.set_result(None)
                except RuntimeError:
                    _check_closed(waiter)
        if sleepers:
            self.soon(self._wake_slice)
        else:
            self._left = SLICE

    def _run(self, callback: Callable[[], object]) -> None:
        self._queued -= 1
        callback()


def _check_closed(waiter: _Future) -> None:
    """Call this in an except block: swallows the error if the loop has closed."""
    if not waiter.get_loop().is_closed():
        raise  # noqa: PLE0704 - in the caller's except block


_dispatchers: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Dispatcher]] = (
    weakref.WeakKeyDictionary()
)


def dispatcher_of(loop: asyncio.AbstractEventLoop) -> Dispatcher:
    """Return the only dispatcher of a loop."""
    dispatcher = _dispatchers.get(loop)
    if dispatcher is None:
        dispatcher = _dispatchers[loop] = Dispatcher(loop)
    return dispatcher
