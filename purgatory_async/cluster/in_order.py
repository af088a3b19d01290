"""Steps that run in order although some of them wait: an async `Cluster` ``apply``, and what follows each signal."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["InOrder"]

MANY: Final = 256  # waiting steps from which on the reader waits

Step = Callable[[], "Awaitable[object] | None"]


class InOrder:
    """Runs steps one after the other, at once where it can.

    A step that returns an awaitable is awaited in a task; later steps wait for it. A step that raises ends them all.

    Args:
        ended: Called with each task that ends, as a done callback.
    """

    __slots__ = ("_behind", "_closed", "_ended", "_task")

    def __init__(self, ended: Callable[["asyncio.Task[None]"], object]) -> None:
        self._behind: deque[Step] = deque()
        self._closed = False
        self._ended = ended
        self._task: asyncio.Task[None] | None = None

    def run(self, step: Step) -> None:
        """Run a step: at once if none is under way."""
        self._behind.append(step)
        if self._task is None and (waiting := self._advance()) is not None:
            task = asyncio.get_running_loop().create_task(self._go_on(waiting))
            task.add_done_callback(self._ended)
            if not task.done():  # an eager task may have ended
                self._task = task

    async def rest(self) -> None:
        """Wait until few steps are waiting."""
        if len(self._behind) >= MANY:
            await self.finished()

    async def finished(self) -> None:
        """Wait until no step is under way."""
        if self._task is not None:
            await asyncio.shield(asyncio.gather(self._task, return_exceptions=True))

    def close(self) -> None:
        """Run no further step; a step under way finishes, see `finished`."""
        self._closed = True
        self._behind.clear()

    def _advance(self) -> Awaitable[object] | None:
        """Run steps until one returns what must be awaited."""
        while self._behind and not self._closed:
            waiting = self._behind.popleft()()
            if waiting is not None:
                return waiting
        return None

    async def _go_on(self, waiting: Awaitable[object] | None) -> None:
        try:
            while waiting is not None:
                await waiting
                waiting = self._advance()
        finally:
            self._task = None
