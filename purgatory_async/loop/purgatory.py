"""The purgatory: holds delayed operations on one event loop.

`Verbs` decides what waits and how it ends. This adds the owning loop, the timer, `wait` and `run` for coroutines,
and `drain` and `close` for an orderly end.
"""

import asyncio
import os
import warnings
import weakref
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from threading import get_ident
from typing import Any, Final, NoReturn, Self, cast

from purgatory_async.clock import check_timeout
from purgatory_async.core.hooks import forget_hooks, hooks_of_thread
from purgatory_async.core.notifier import EventNotifier
from purgatory_async.core.operation import Admission, DelayedOperation, Outcome
from purgatory_async.core.owner import CHECKING, Unowned
from purgatory_async.errors import PurgatoryError, check_limit
from purgatory_async.events import Observer
from purgatory_async.loop.ownership import NOT_YET, LoopOwner, runner_of
from purgatory_async.loop.portal import PurgatoryPortal
from purgatory_async.loop.timer import Timer
from purgatory_async.loop.wait import Waiting
from purgatory_async.loop.wakeups import dispatcher_of

_BEFORE_FORK: Final = Unowned("created before fork()")


class Purgatory(Waiting, LoopOwner):
    """Park an operation until its condition holds or its timeout expires. It ends exactly once.

    The purgatory belongs to the event loop that runs at the first watch. Everything but the portal is for that
    loop's thread. Once that loop has closed, and nothing is pending, the purgatory belongs to the next one. An
    asynchronous context manager; leaving it closes the purgatory.

    Args:
        name: For messages, metrics and journals.
        timer: May be shared; if not given, the purgatory makes its own and closes it.
        max_pending: Limit of pending operations; None for no limit.
        observer: Receives the events, see `purgatory_async.events`.

    Raises:
        TypeError, ValueError: An argument is out of its bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory() as purgatory:
    ...         asyncio.get_running_loop().call_later(0.01, purgatory.complete_for_key, "order:42", "shipped")
    ...         return await purgatory.wait("order:42", timeout=5)
    >>> asyncio.run(main())
    'shipped'
    """

    __slots__ = (
        "__weakref__",
        "_drains",
        "_loop",
        "_owns_timer",
        "closed",
    )

    closed: bool
    """Whether `close` was called."""
    timer: Timer
    """The timer that expires its operations."""

    def __init__(
        self,
        name: str = "purgatory",
        *,
        timer: Timer | None = None,
        max_pending: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(name, max_pending)
        self.max_pending = check_limit("max_pending", max_pending)
        if timer is not None and not isinstance(timer, Timer):
            raise TypeError(f"timer must be a Timer, got {timer!r}")
        self._owns_timer = timer is None
        self.timer = Timer() if timer is None else timer  # pyright: ignore[reportIncompatibleVariableOverride]
        if observer is not None:
            self._notifier = EventNotifier(observer, self.timer.time_ns)
        self.closed = False
        self._disown()
        self._drains: list[asyncio.Future[None]] = []
        _living.add(self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else self._refusal or "open"
        return f"<Purgatory {self.name!r} {state} pending={self.pending} watched={self.watched} keys={self.keys}>"

    # Waiting.

    async def run(self, operation: DelayedOperation[Any], keys: Iterable[Hashable]) -> Outcome:
        """Check, watch and await an operation; cancelling the task cancels the operation. O(keys).

        It is `try_complete_else_watch`, then `await operation`; it returns after the operation's hooks. An operation
        that ended before the cancellation keeps its outcome. Every other task that awaits a cancelled one gets
        CANCELLED.

        Returns:
            How it ended.

        Raises:
            ValueError, TypeError, PurgatoryError: As `try_complete_else_watch`; nothing is registered.
            BaseException: The exception of its first check, or the one that it failed with.
        """
        self.try_complete_else_watch(operation, keys)
        try:
            return await operation
        except BaseException:
            operation.cancel()
            raise
        finally:
            del operation  # as in `_raise_failure`

    # Reading.

    def operations(
        self, key: Hashable | None = None, *, limit: int | None = None
    ) -> Iterator[DelayedOperation[Any]]:
        """Return a snapshot of the pending operations, or of those that watch ``key``, oldest first.

        O(n); with a ``limit`` and no key O(limit).

        Raises:
            TypeError, ValueError: ``limit`` is not None or an integer of at least 1.
        """
        watchers = self._arrived() if key is None else self._watchers_of(key)
        if limit is not None:
            watchers = islice(watchers, check_limit("limit", limit))
        return iter(cast("list[DelayedOperation[Any]]", list(watchers)))

    # The end.

    async def drain(self, timeout: float | None = None) -> bool:
        """Refuse new operations, and wait until none is pending.

        Watching raises `PurgatoryClosed` from the call on, also after this timed out or was cancelled.

        Args:
            timeout: Seconds on the purgatory's clock, as for any operation.

        Returns:
            True when none is pending, False at the timeout.

        Raises:
            TypeError, ValueError: ``timeout`` is invalid; nothing changes.
        """
        timeout = check_timeout(timeout)
        self._arrive(watching=True)
        self._refusal = self._refusal or "draining"
        if not self.pending:
            return True
        drained = self._new_future()
        self._drains.append(drained)
        self._emptied = self._wake_drains
        handle = None
        try:
            if timeout is not None:
                handle = self.timer._call_unlimited(timeout, self._dispatcher.wake, drained)
            await drained
        finally:
            if handle is not None:
                handle.cancel()
            self._drains.remove(drained)
        return not self.pending

    def close(self) -> list[DelayedOperation[Any]]:
        """End all pending operations as closed, and refuse new ones; waits raise `PurgatoryClosed`.

        Also closes the timer if the purgatory made it. Closing again does nothing.

        Returns:
            The ended operations, oldest first.

        Raises:
            PurgatoryError: Called from another loop.
        """
        if self.closed:
            return []
        if self._runner is not CHECKING:
            self._arrive(watching=False)
        self.closed = True
        self._refusal = "closed"
        ended = self._end_everything() if self.pending else []
        if self._owns_timer:
            self.timer.close()
        return ended

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_watchers", None) is None:
            return  # its arguments were refused
        if self.pending:
            warnings.warn(
                f"{self!r} was dropped with operations pending; close it", ResourceWarning, stacklevel=1
            )
        else:
            self._drop_sentinel()

    def portal(self) -> PurgatoryPortal:
        """Return the same verbs for other threads. Call this on the loop; pass the portal to the threads.

        Raises:
            PurgatoryError: The owning loop is not running here.
        """
        self._arrive(watching=True)
        if self._loop is None:
            raise PurgatoryError(f"{self!r} has no event loop to hand calls to; call portal() on the loop")
        return PurgatoryPortal(self, self._loop)

    # Ownership.

    def _arrive(self, *, watching: bool) -> bool:
        if get_ident() == self._runner._thread_id:
            return False
        self._refuse_unowned()
        running = asyncio._get_running_loop()
        if self._loop is not None and self._loop.is_closed() and not self.pending:
            self._leave_loop()  # the next loop may have it
        if self._loop is None:
            # After use without a loop, on a clock that needs none, the first loop owns it.
            if watching:
                self._bind(running)
                return not self.pending
        elif running is self._loop:
            self._runner = runner_of(running)  # it may run in another thread now
        elif self._loop.is_running():
            raise PurgatoryError(
                f"{self!r} belongs to a loop that runs in another thread: cannot use it from this one; call "
                "portal() on the loop and use the portal"
            )
        elif running is not None:
            self._own(running)
        elif watching:  # between two runs of its loop
            self._require_loop(None, exact=self.timer._exact)
        return False

    def _refuse_unowned(self) -> None:
        if self._runner is CHECKING:
            raise PurgatoryError(
                f"{self!r} is in the middle of a try_complete, which may only read it; watch and signal from "
                "on_complete instead"
            )
        if self._runner is _BEFORE_FORK:
            raise PurgatoryError(f"{self!r} is {self._runner!r}; make a new one in this process")

    def _leave_loop(self) -> None:
        self._disown()
        if self._owns_timer:
            self.timer._abandon()

    def _bind(self, running: asyncio.AbstractEventLoop | None) -> None:
        """Bind to this loop, or to none if the timer needs none."""
        self._require_loop(running, exact=self.timer._exact)
        self.timer._adopt(running)
        if running is None:
            self._runner = runner_of(None)
            self._new_future = _without_loop
        else:
            self._own(running)
            self._dispatcher = dispatcher_of(running)
            self._new_future = running.create_future
        self._hooks = hooks_of_thread()
        self._admission = Admission(self._hooks)

    def _wake_drains(self) -> None:
        for drained in self._drains:
            self._dispatcher.wake(drained)


def _without_loop() -> NoReturn:
    raise PurgatoryError("no event loop is running: cannot await an operation")


_living: Final[weakref.WeakSet[Purgatory]] = weakref.WeakSet()


def _forget_parent() -> None:
    """In a forked child, asyncio would silently accept calls on the parent's loop, and a call would never end."""
    forget_hooks()
    for purgatory in _living:
        if purgatory._runner is not NOT_YET:
            purgatory._runner = _BEFORE_FORK


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
