"""Whether the caller is on the owning loop. Every verb checks this, so the check must be cheap.

``asyncio._get_running_loop() is loop`` makes a system call on Python 3.11: up to 270 ns, as much as the rest of a
verb. A thread runs one loop at a time, and asyncio's loops store their thread's ident, so ``get_ident() ==
loop._thread_id`` answers the same in 30 ns. Other loops get a stand-in.
"""

import asyncio
from threading import get_ident
from typing import Final, cast

from purgatory_async.core.owner import Runner, Unowned
from purgatory_async.errors import PurgatoryError
from purgatory_async.native import also_compiled

NOT_YET: Final = Unowned("not used yet")


@also_compiled
class Elsewhere:
    """Stand-in for a loop without ``_thread_id``, such as uvloop's."""

    __slots__ = ("_ident", "_is_running")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = get_ident()
        self._is_running = loop.is_running

    @property
    def _thread_id(self) -> int | None:
        return self._ident if self._is_running() else None


class _NoLoop:
    """Stand-in where no loop is needed: matches any thread without a running loop."""

    __slots__ = ()

    @property
    def _thread_id(self) -> int | None:
        return get_ident() if asyncio._get_running_loop() is None else None


def runner_of(loop: asyncio.AbstractEventLoop | None) -> Runner:
    """Return the loop itself if it has ``_thread_id``, else a stand-in; ``loop=None`` means no loop."""
    if loop is None:
        return _NoLoop()
    return cast("Runner", loop) if hasattr(loop, "_thread_id") else Elsewhere(loop)


class LoopOwner:
    """Belongs to the first loop that uses it."""

    __slots__ = ()

    _loop: asyncio.AbstractEventLoop | None
    _runner: Runner

    def _require_loop(self, running: asyncio.AbstractEventLoop | None, *, exact: bool) -> None:
        """Refuse the lack of a loop, unless the clock needs none."""
        if running is None and not exact:
            raise PurgatoryError(f"{self!r} needs a running event loop; call it from a coroutine or callback")

    def _own(self, running: asyncio.AbstractEventLoop) -> None:
        """Bind to a running loop, or refuse another than the bound one."""
        if self._loop is not None and self._loop is not running:
            raise PurgatoryError(f"{self!r} belongs to {self._loop!r}, but was used from {running!r}")
        self._loop, self._runner = running, runner_of(running)  # type: ignore[misc]  # slots of the subclass

    def _disown(self) -> None:
        """Undo the binding."""
        self._loop, self._runner = None, NOT_YET  # type: ignore[misc]  # slots of the subclass
