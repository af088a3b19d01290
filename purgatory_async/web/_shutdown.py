"""End held polls and streams on SIGTERM and SIGINT.

A stopping server first waits for its requests; a held one may take a minute, and a stream has no end. Servers do not
pass the signal on. So while any is held, a hook handles both signals: it ends all on the loop and then calls the
previous handler.
This also works over the empty handler of `loop.add_signal_handler`: the loop sees the signal through its wakeup file.

The hook needs the main thread and an existing handler: without one the process dies or ignores the signal. Elsewhere
closing the purgatory releases the polls.
"""

import asyncio
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, Protocol

from purgatory_async.web.race import ServerStops

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# For so many seconds after a signal no poll is held: servers still accept requests and would then wait for them. A
# process that runs longer was not meant to stop.
REFUSAL: Final = 60.0

Handler = Callable[[int, FrameType | None], Any]


class Stoppable(Protocol):
    """A poll or a stream under way."""

    def stop(self) -> None:
        """End it soon: the server stops."""


class Held:
    """The polls and streams held on one event loop.

    Args:
        loop: Kept weakly.
    """

    __slots__ = ("_held", "_hooks", "_loop", "_refused_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._held: dict[Stoppable, None] = {}
        self._hooks: dict[int, _Hook] = {}
        self._refused_until = 0.0

    @contextmanager
    def holding(self, stoppable: Stoppable) -> Iterator[None]:
        """Hold one more poll or stream. O(1).

        Raises:
            ServerStops: A signal to stop came less than a minute ago.
        """
        if self._refused_until and self._time() < self._refused_until:
            raise ServerStops
        if not self._held:
            self._hook()
        self._held[stoppable] = None
        try:
            yield
        finally:
            del self._held[stoppable]
            if not self._held:
                self._unhook()

    def release_soon(self) -> None:
        """Release all that is held in the loop's next turn; safe in a signal handler."""
        loop = self._loop()
        with suppress(RuntimeError):  # the loop has closed: nothing is held
            if loop is not None:
                loop.call_soon_threadsafe(self.release)

    def release(self) -> None:
        """Release all that is held, and refuse more for a minute. O(held)."""
        self._refused_until = self._time() + REFUSAL
        for stoppable in tuple(self._held):
            stoppable.stop()

    def _time(self) -> float:
        loop = self._loop()
        assert loop is not None, "it runs this"
        return loop.time()

    def _hook(self) -> None:
        """Put a hook before the handler of each signal that has one."""
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if not _is_worth_a_hook(handler):
                continue
            hook = _Hook(self, handler)  # type: ignore[arg-type]  # any callable
            try:
                signal.signal(number, hook)
            except ValueError:
                return  # not in the main thread
            self._hooks[number] = hook

    def _unhook(self) -> None:
        """Restore the previous handlers where the hooks are still in place."""
        for number, hook in self._hooks.items():
            before = hook.before
            if signal.getsignal(number) is hook:
                signal.signal(number, _unless_over(before))
        self._hooks.clear()


class _Hook:
    """A signal handler that releases the polls, then calls the previous handler."""

    __slots__ = ("_held", "_process", "before")

    def __init__(self, held: Held, before: Handler) -> None:
        self._held = held
        self._process = os.getpid()
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:  # a forked process inherits the handler, not the loop
            self._held.release_soon()
        self.before(number, frame)


def _is_worth_a_hook(handler: object) -> bool:
    # Python's own for Ctrl-C raises out of the loop: no poll could be answered.
    return callable(handler) and handler is not signal.default_int_handler


def _unless_over(handler: Handler) -> Handler:
    """Return the handler, or Python's own if it belongs to an `asyncio.run` that is over.

    `asyncio.run` removes its handler for Ctrl-C, if it finds it, before it cancels the remaining tasks. A poll among
    those would restore the handler for good.
    """
    main_task = getattr(handler, "keywords", {}).get("main_task")
    over = isinstance(main_task, asyncio.Task) and main_task.done()
    return signal.default_int_handler if over else handler


_by_loop: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Held]] = weakref.WeakKeyDictionary()


def held_on(loop: asyncio.AbstractEventLoop) -> Held:
    """Return the polls held on a loop. O(1)."""
    held = _by_loop.get(loop)
    if held is None:
        held = _by_loop[loop] = Held(loop)
    return held
