"""A thread for calls that block: one at a time, in order, each with a future for its caller."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from purgatory_async.cluster.log import LogError

__all__ = ["WorkerThread"]

T = TypeVar("T")
_Call = tuple[Callable[[], Any], asyncio.Future[Any]]


class WorkerThread(Thread):
    """Run the calls of one loop until `stop`.

    It is a daemon: a call that never returns, as a lock that a stopped process holds, does not keep the program from
    exiting.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._unsettled: set[asyncio.Future[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._stopping = False

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a call; returns the future of its result. Cancelling the future does not stop the call.

        Raises:
            LogError: The thread was stopped.
        """
        if self._stopping:
            raise LogError(f"log is closed: cannot use {self.name}")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._unsettled.add(future)
        self._calls.put((call, future))
        return future

    def stop(self) -> None:
        """End the thread after the calls that are queued."""
        self._stopping = True
        self._calls.put(None)

    def abandon(self, error: Exception, *, but: asyncio.Future[Any]) -> None:
        """Raise an error for the calls but one that have no result yet; the thread may still be in one of them."""
        for future in self._unsettled - {but}:
            if not future.done():
                future.set_exception(error)

    def run(self) -> None:
        """Run what is queued, in order."""
        while (queued := self._calls.get()) is not None:
            call, future = queued
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - it belongs to the caller
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._settle, future, result, error)
            except RuntimeError:
                return  # the loop is closed
            del queued, call, future, result, error  # keep nothing alive while idle

    def _settle(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        self._unsettled.discard(future)
        if future.done():
            return  # its caller was cancelled, or it was abandoned
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
