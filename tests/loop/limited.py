"""A task whose body a scope of `Timer.timeout` limits."""

import asyncio
from collections.abc import Callable
from typing import Any

from purgatory_async import Timer
from purgatory_async.testing import settle


class Limited:
    """A task with a scope around a body, and what came of it."""

    def __init__(self, scope: Any, body: Callable[[], Any]) -> None:
        self.scope = scope
        self._body = body
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> Any:
        async with self.scope:
            return await self._body()

    @property
    def raised(self) -> type[BaseException] | None:
        assert self.task.done()
        if self.task.cancelled():
            return asyncio.CancelledError
        error = self.task.exception()
        return None if error is None else type(error)


async def limited(timer: Timer, delay: float | None, body: Callable[[], Any]) -> Limited:
    """One that has been entered."""
    made = Limited(timer.timeout(delay), body)
    await settle()
    return made


async def never() -> None:
    await asyncio.get_running_loop().create_future()
