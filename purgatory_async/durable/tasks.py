"""Tasks that live and end together: the first failure of one ends all."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from purgatory_async.cluster import LogError


class _Closed(LogError):  # noqa: N818 - no error, but what happened
    """The state was closed by its owner."""


class Tasks:
    """The tasks of a state.

    Args:
        failed: Called once, with why nothing goes on, when the first has failed or they are ended.

    Attributes:
        failure: What the first one raised; None while they go on.
    """

    def __init__(self, failed: Callable[[LogError], object]) -> None:
        self.failure: Exception | None = None
        self._failed: Final = failed
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._stopped: Final = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Tasks running={len(self._running)} failure={self.failure!r}>"

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; what it raises is the failure of all."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def fail(self, failure: Exception) -> None:
        """Let nothing go on; the first reason counts."""
        if self.failure is None:
            self.failure = failure
            self._failed(
                failure if isinstance(failure, LogError) else LogError(f"state has failed: {failure}")
            )
            self._stopped.set()

    async def wait(self) -> None:
        """Wait for the failure, then end all, and raise it if they were not ended by their owner."""
        try:
            await self._stopped.wait()
        finally:
            await self.end()
        if self.failure is not None and not isinstance(self.failure, _Closed):
            raise self.failure

    async def end(self) -> None:
        """Cancel all but the caller's, and wait for them. Idempotent."""
        self.fail(_Closed("state is closed: cannot use it"))
        tasks = [task for task in self._running if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def require(self) -> None:
        """Raise `LogError` if nothing goes on."""
        if self.failure is not None:
            raise LogError(f"state is closed: {self.failure}")

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.fail(error)
