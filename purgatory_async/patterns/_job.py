"""Running a function that may be plain or async, and never twice at once."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable

__all__ = ["Job"]


class Job:
    """Runs a function from a timer's callback; an async one goes on in a task.

    Args:
        owner: Whose function it is, for reports: what an async one raises goes to the loop's exception handler.
        function: Plain or async, without arguments.
        then: Called when a run has ended, however it did.

    Raises:
        TypeError: ``function`` cannot be called.
    """

    __slots__ = ("_function", "_owner", "_running", "_task", "_then")

    def __init__(
        self, owner: object, function: Callable[[], object], then: Callable[[], None] = lambda: None
    ) -> None:
        self._owner = owner
        self._function = function
        self._then = then
        self._running = False
        self._task: asyncio.Future[object] | None = None

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._running

    def run(self) -> None:
        """Begin a run; not before the former has ended.

        Raises:
            BaseException: What a plain function raised; its caller, the timer, reports it.
        """
        self._running = True
        try:
            result = self._function()
        except BaseException:
            self._end()
            raise
        if isawaitable(result):
            # Its end is a callback: a task that is cancelled before its first step runs no `finally` of its own.
            self._task = asyncio.ensure_future(result)
            self._task.add_done_callback(self._finished)
        else:
            self._end()

    async def stop(self) -> None:
        """Cancel the run that is going on, and wait until it has ended; called from inside it, do nothing."""
        task = self._task
        if task is not None and self._running and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _finished(self, task: asyncio.Future[object]) -> None:
        exception = None if task.cancelled() else task.exception()
        if isinstance(exception, Exception):  # nobody awaits the task
            task.get_loop().call_exception_handler(
                {"message": f"{self._function!r} of {self._owner!r} raised", "exception": exception}
            )
        self._end()

    def _end(self) -> None:
        self._running = False
        self._then()
