"""An event loop on virtual time, for whole applications."""

import asyncio
import contextvars
import selectors
from collections.abc import Callable
from math import ulp
from typing import Any

from purgatory_async.clock import Cancellable


class _JumpingSelector(selectors.DefaultSelector):
    """Polls I/O without waiting, and lets time jump."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready files; jump over a wait with a timeout, and really wait without one."""
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self.jump(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` jumps to the next timer when it is idle; a day of waiting takes milliseconds.

    It is a `Clock` too, and timers without a clock of their own use it. Real I/O works, but takes no virtual time: a
    wait for a reply with a timeout jumps to the timeout unless the reply is ready. Without any timer it really waits,
    as for a thread.

    >>> import asyncio
    >>> async def nap():
    ...     loop = asyncio.get_running_loop()
    ...     await asyncio.sleep(3600)
    ...     return loop.time()
    >>> with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    ...     runner.run(nap())
    3600.0
    """

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.jump = self._jump
        self._now_ns = 0
        super().__init__(selector)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the virtual seconds since construction."""
        return self._now_ns / 1e9

    def time_ns(self) -> int:
        """Return the virtual nanoseconds since construction."""
        return self._now_ns

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Call ``callback()`` at a virtual time; see `Clock.call_at_ns`."""
        return self.call_at(when_ns / 1e9, self._arrive, when_ns, callback, context=contextvars.Context())

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002 - asyncio's
        """Wait for the executor's threads without asyncio's limit of 300 s, which virtual time would jump over."""
        await super().shutdown_default_executor()

    def _arrive(self, when_ns: int, callback: Callable[[], Any]) -> None:
        # A float of seconds may round to a nanosecond too early; jump the rest.
        self._now_ns = max(self._now_ns, when_ns)
        callback()

    def _jump(self, seconds: float) -> None:
        self._now_ns += max(1, round(seconds * 1e9))
        # asyncio runs what is due within the resolution; below a float's own it would never run anything.
        self._clock_resolution = max(1e-9, 2 * ulp(self.time()))
