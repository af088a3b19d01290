"""Run a plain or async function, never twice at once."""

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable

__all__ = ["Job"]


def _nothing() -> None:
    """Do nothing after a run."""


class Job:
    """Runs functions called from a timer one at a time; an async one continues in a task.

    Between runs it holds no reference: function and owner come with each run.
    """

    __slots__ = ("_running", "_task")

    def __init__(self) -> None:
        self._running = False
        self._task: asyncio.Future[object] | None = None

    @property
    def running(self) -> bool:
        """Whether a run is in progress."""
        return self._running

    def run(self, function: Callable[[], object], owner: object, then: Callable[[], None] = _nothing) -> None:
        """Begin a run; the one before must have ended.

        Args:
            function: Plain or async, without arguments.
            owner: Named in the report of an async function's exception to the loop's exception handler.
            then: Called when the run ends, in any way.

        Raises:
            BaseException: What a plain function raised; the timer that called it reports it.
            RuntimeError: The function is async, and no event loop is running.
        """
        self._running = True
        try:
            result = function()
            if isawaitable(result):
                self._task = asyncio.ensure_future(result, loop=asyncio.get_running_loop())
        except BaseException:  # also an interrupt in the first step of an eager task
            self._end(then)
            raise
        if self._task is None:
            self._end(then)
        else:
            # A callback: a task cancelled before its first step runs no `finally` of its own.
            self._task.add_done_callback(partial(self._finished, function, owner, then))

    async def stop(self) -> None:
        """Cancel the current run and wait for its end; does nothing when called from inside it."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _finished(
        self,
        function: Callable[[], object],
        owner: object,
        then: Callable[[], None],
        task: asyncio.Future[object],
    ) -> None:
        self._end(then)
        exception = None if task.cancelled() else task.exception()
        # No task awaits this one. KeyboardInterrupt and SystemExit already propagated through the loop.
        if exception is not None and not isinstance(exception, KeyboardInterrupt | SystemExit):
            task.get_loop().call_exception_handler(
                {"message": f"{function!r} of {owner!r} raised", "exception": exception}
            )

    def _end(self, then: Callable[[], None]) -> None:
        self._running = False
        self._task = None
        then()
