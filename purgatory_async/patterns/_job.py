"""Run plain and async functions for their effect: one never twice at once, or each call in a task of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import isawaitable

from purgatory_async.errors import check_result


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
            self._task = _begun(function)
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
        _report(function, owner, task)

    def _end(self, then: Callable[[], None]) -> None:
        self._running = False
        self._task = None
        then()


class Calls:
    """Calls plain or async functions; an async one continues in a task, also beside others, until `finished`."""

    __slots__ = ("_closing", "_tasks")

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[object]] = set()
        self._closing: set[asyncio.Future[object] | None] = set()  # tasks that wait here

    def run(self, function: Callable[..., object], owner: object, *args: object) -> None:
        """Call a function.

        Args:
            function: Plain or async.
            owner: Named in the report of an async function's exception to the loop's exception handler.
            *args: The function's arguments.

        Raises:
            BaseException: What a plain function raised.
            RuntimeError: The function is async, and no event loop is running.
        """
        task = _begun(function, *args)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(_report, function, owner))

    async def finished(self) -> None:
        """Wait until every task has ended, but for those that wait here; cancelling this wait cancels none."""
        caller = asyncio.current_task()
        self._closing.add(caller)
        try:
            while tasks := self._tasks - self._closing:
                await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            self._closing.discard(caller)


def _begun(function: Callable[..., object], *args: object) -> asyncio.Future[object] | None:
    """Call a function; returns the task in which an async one continues.

    Raises:
        TypeError: It returned an async generator.
        RuntimeError: It is async, and no event loop is running.
    """
    result = function(*args)
    if not isawaitable(result):
        check_result("what is no async function", function, result)
        return None
    try:
        return asyncio.ensure_future(result, loop=asyncio.get_running_loop())
    except RuntimeError:
        if isinstance(result, Coroutine):
            result.close()
        raise


def _report(function: Callable[..., object], owner: object, task: asyncio.Future[object]) -> None:
    exception = None if task.cancelled() else task.exception()
    # No task awaits this one. KeyboardInterrupt and SystemExit already propagated through the loop.
    if exception is not None and not isinstance(exception, KeyboardInterrupt | SystemExit):
        task.get_loop().call_exception_handler(
            {"message": f"{function!r} of {owner!r} raised", "exception": exception}
        )
