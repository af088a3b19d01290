"""Is the caller on the right loop? Every verb asks, so the answer must be cheap.

The obvious question, ``asyncio._get_running_loop() is loop``, makes a system call on Python 3.11: 270 ns where those
are dear, as much as all else that a verb does. A thread runs one loop at a time, and asyncio's own loops note which
thread runs them, so ``get_ident() == loop._thread_id`` asks the same for 30. Other loops get a stand-in.
"""

import asyncio
from threading import get_ident
from typing import cast

from purgatory_async.core.life_cycle import Runner

__all__ = ["runner_of"]


class _Elsewhere:
    """Stands in for a loop that does not say which thread runs it, as uvloop's."""

    __slots__ = ("_ident", "_is_running")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = get_ident()
        self._is_running = loop.is_running

    @property
    def _thread_id(self) -> int | None:
        return self._ident if self._is_running() else None


class _NoLoop:
    """Stands in for the loop where none is needed: any thread will do on which none runs."""

    __slots__ = ()

    @property
    def _thread_id(self) -> int | None:
        return get_ident() if asyncio._get_running_loop() is None else None


def runner_of(loop: asyncio.AbstractEventLoop | None) -> Runner:
    """What tells which thread runs a loop: the loop itself if it can, else a stand-in; None for no loop at all."""
    if loop is None:
        return _NoLoop()
    return cast("Runner", loop) if hasattr(loop, "_thread_id") else _Elsewhere(loop)
