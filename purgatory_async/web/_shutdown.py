"""Held polls end when the process is told to stop.

A server that is told to stop waits for its requests first, and a held one may take a minute. Servers tell nobody
that the signal came. So while polls are held, SIGTERM and SIGINT come to us first: every poll on the loop ends, and
then the handler that was there before is called, as if we were not there. It also works over the handler of
`loop.add_signal_handler`, which is empty: the loop hears of the signal through its wakeup file.

Only the main thread can do this, and only where somebody handles the signal: without a handler the process dies, or
ignores it, and there is nothing to be won. Elsewhere closing the purgatory lets the polls go.
"""

import asyncio
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from purgatory_async.web._race import Race, ServerStops

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Seconds after a signal in which no poll is held: servers go on accepting for a moment, some for a while, and would
# then wait for what they accepted. A process that is still there afterwards was not meant.
REFUSAL: Final = 60.0

Handler = Callable[[int, FrameType | None], Any]


class Held:
    """The polls held on one event loop.

    Args:
        loop: Kept weakly.
    """

    __slots__ = ("_hooks", "_loop", "_races", "_refused_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._races: dict[Race, None] = {}
        self._hooks: dict[int, _Hook] = {}
        self._refused_until = 0.0

    @contextmanager
    def holding(self, race: Race) -> Iterator[None]:
        """Hold one more poll. O(1).

        Raises:
            ServerStops: The process was told to stop less than a minute ago.
        """
        if self._refused_until and self._time() < self._refused_until:
            raise ServerStops
        if not self._races:
            self._hook()
        self._races[race] = None
        try:
            yield
        finally:
            del self._races[race]
            if not self._races:
                self._unhook()

    def release_soon(self) -> None:
        """Let every poll go in the loop's next turn; safe in a signal handler."""
        loop = self._loop()
        with suppress(RuntimeError):  # the loop has closed: nothing is held
            if loop is not None:
                loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._refused_until = self._time() + REFUSAL
        for race in tuple(self._races):
            race.stop()

    def _time(self) -> float:
        loop = self._loop()
        assert loop is not None, "it runs this"
        return loop.time()

    def _hook(self) -> None:
        """Come first at every signal that somebody handles."""
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if not _is_worth_a_hook(handler):
                continue
            hook = _Hook(self, handler)  # type: ignore[arg-type]  # what can be called, no more is asked of it
            try:
                signal.signal(number, hook)
            except ValueError:
                return  # not in the main thread
            self._hooks[number] = hook

    def _unhook(self) -> None:
        """Put back what was there, unless somebody has done so or put another handler over ours."""
        for number, hook in self._hooks.items():
            before = hook.before
            if signal.getsignal(number) is hook:
                signal.signal(number, _unless_over(before))
        self._hooks.clear()


class _Hook:
    """A signal handler that lets the polls go, and then does what the one before it does."""

    __slots__ = ("_held", "_process", "before")

    def __init__(self, held: Held, before: Handler) -> None:
        self._held = held
        self._process = os.getpid()
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:  # a fork has our handler, but not our loop
            self._held.release_soon()
        self.before(number, frame)


def _is_worth_a_hook(handler: object) -> bool:
    # Python's own for Ctrl-C raises out of whatever runs, the loop included: no poll could be answered any more.
    return callable(handler) and handler is not signal.default_int_handler


def _unless_over(handler: Handler) -> Handler:
    """The handler, or Python's own where it is one of `asyncio.run` whose run is over.

    `asyncio.run` takes its handler for Ctrl-C away at its end, but only where it finds it, and it looks before it
    cancels what is left running. A poll among that would put the handler back for good.
    """
    main_task = getattr(handler, "keywords", {}).get("main_task")
    over = isinstance(main_task, asyncio.Task) and main_task.done()
    return signal.default_int_handler if over else handler


_by_loop: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Held]] = weakref.WeakKeyDictionary()


def held_on(loop: asyncio.AbstractEventLoop) -> Held:
    """The polls held on a loop. O(1)."""
    held = _by_loop.get(loop)
    if held is None:
        held = _by_loop[loop] = Held(loop)
    return held
