"""Running a function that may be plain or async, and never twice at once."""

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable

__all__ = ["Job"]


def _nothing() -> None:
    """What is to be done after a run, if nothing is."""


class Job:
    """One run at a time of functions called from a timer; an async one goes on in a task.

    Between runs it holds nothing: what is run, and for whom, comes with each run.
    """

    __slots__ = ("_running", "_task")

    def __init__(self) -> None:
        self._running = False
        self._task: asyncio.Future[object] | None = None

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._running

    def run(self, function: Callable[[], object], owner: object, then: Callable[[], None] = _nothing) -> None:
        """Begin a run; not before the former has ended.

        Args:
            function: Plain or async, without arguments.
            owner: Whose function it is, for reports: what an async one raises goes to the loop's exception handler.
            then: Called when the run has ended, however it did.

        Raises:
            BaseException: What a plain function raised; its caller, the timer, reports it.
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
            # Its end is a callback: a task that is cancelled before its first step runs no `finally` of its own.
            self._task.add_done_callback(partial(self._finished, function, owner, then))

    async def stop(self) -> None:
        """Cancel the run that is going on, and wait until it has ended; called from inside it, do nothing."""
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
        # Unowned awaits the task. An interrupt has gone its own way, through the loop.
        if exception is not None and not isinstance(exception, KeyboardInterrupt | SystemExit):
            task.get_loop().call_exception_handler(
                {"message": f"{function!r} of {owner!r} raised", "exception": exception}
            )

    def _end(self, then: Callable[[], None]) -> None:
        self._running = False
        self._task = None
        then()
