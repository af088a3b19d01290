"""Hooks in a queue: `on_complete` and `on_expiration` run first-in first-out and never inside one another.

A hook may end other operations, whose hooks may end others. Direct calls would recurse, and a chain would fail
at depth 997 (CPython's limit); a queue handles 100 000. So ending an operation only queues it, and the outermost
call runs the queue after its own work.

Each thread, and so each event loop, has one queue: a chain may lead through several purgatories, and through
operations that were never watched.
"""

from collections import deque
from threading import local
from typing import Any, Final, Protocol

from purgatory_async.core.outcome import EXPIRED
from purgatory_async.core.reports import call_soon, report
from purgatory_async.errors import check_result
from purgatory_async.native import also_compiled


class Hooked(Protocol):
    """An operation that has completed or expired."""

    _waiters: Any  # the queue while it waits there

    @property
    def _state(self) -> object: ...

    def on_complete(self) -> None:
        """Runs first."""

    def on_expiration(self) -> None:
        """Runs second, if it expired."""


@also_compiled
class HookQueue:
    """Ended operations whose hooks have yet to run.

    While ``deferred``, an outer call will run the queue: a walk over a key's operations, or the queue itself. After
    `add` the caller must call `run_unless_deferred`.
    """

    __slots__ = ("deferred", "queue")

    def __init__(self) -> None:
        self.queue: deque[Hooked] = deque()
        self.deferred = False

    def add(self, ended: Hooked) -> None:
        """Queue an operation, and mark it until its hooks have run."""
        ended._waiters = self
        self.queue.append(ended)

    def defer(self) -> bool:
        """Defer the hooks until `release`, which takes the returned value."""
        deferred, self.deferred = self.deferred, True
        return deferred

    def release(self, deferred: bool) -> None:
        """End a `defer`; the outermost one runs the queue."""
        self.deferred = deferred
        if self.queue and not deferred:
            self.run()

    def run_unless_deferred(self) -> None:
        """Run the queue, unless an outer call will."""
        if self.queue and not self.deferred:
            self.run()

    def run(self) -> None:
        """Run all queued hooks, also those that hooks queue; an exception does not stop the rest.

        Raises:
            KeyboardInterrupt, SystemExit: A hook raised it. Later hooks stay queued and run with the next call, or
                in the next turn of a running loop.
        """
        queue = self.queue
        deferred, self.deferred = self.deferred, True
        try:
            while queue:
                ended = queue.popleft()
                try:
                    returned: object = ended.on_complete()  # type: ignore[func-returns-value]  # it should
                    if returned is not None:
                        check_result("on_complete", ended, returned)
                except BaseException as exception:  # noqa: BLE001 - it has no other caller
                    self._raised("on_complete", ended, exception)
                if ended._state is EXPIRED:
                    try:
                        returned = ended.on_expiration()  # type: ignore[func-returns-value]  # it should
                        if returned is not None:
                            check_result("on_expiration", ended, returned)
                    except BaseException as exception:  # noqa: BLE001 - it has no other caller
                        self._raised("on_expiration", ended, exception)
                ended._waiters = None
        finally:
            self.deferred = deferred
            if queue:  # after an interrupt
                call_soon(self.run_unless_deferred)

    def _raised(self, hook: str, ended: Hooked, exception: BaseException) -> None:
        """Report a hook's exception; an interrupt propagates, with the operation's other hook queued again."""
        if isinstance(exception, (KeyboardInterrupt, SystemExit)):
            if hook == "on_complete" and ended._state is EXPIRED:
                self.queue.appendleft(_OnlyExpiration(ended))
            else:
                ended._waiters = None
            raise exception
        report(f"{hook} of {ended!r} raised", exception, ended)
        del exception  # as in `report`


class _OnlyExpiration:
    """The second hook of an expired operation whose first hook was interrupted."""

    __slots__ = ("_ended", "_state", "_waiters")

    _waiters: Any

    def __init__(self, ended: Hooked) -> None:
        self._ended = ended
        self._state: object = None

    def on_complete(self) -> None:
        """Run the second hook."""
        try:
            self._ended.on_expiration()
        finally:
            self._ended._waiters = None

    def on_expiration(self) -> None:
        """Never called: ``_state`` is not EXPIRED."""


class KeyRaised:
    """Queue entry for an exception that a watch key raised while its operation left.

    Args:
        exception: An interrupt propagates, anything else is reported.
        operation: The operation with the key.
    """

    __slots__ = ("_exception", "_operation", "_state", "_waiters")

    _waiters: Any

    def __init__(self, exception: BaseException, operation: object) -> None:
        self._exception = exception
        self._operation = operation
        self._state: object = None

    def on_complete(self) -> None:
        """Report the exception, or raise it."""
        if isinstance(self._exception, (KeyboardInterrupt, SystemExit)):
            raise self._exception
        report(f"a watch key of {self._operation!r} raised", self._exception, self._operation)

    def on_expiration(self) -> None:
        """Never called: ``_state`` is not EXPIRED."""


class _PerThread(local):
    """One queue per thread."""

    def __init__(self) -> None:
        self.hooks = HookQueue()


_per_thread: Final = _PerThread()


def hooks_of_thread() -> HookQueue:
    """The queue of the calling thread."""
    return _per_thread.hooks


def forget_hooks() -> None:
    """Call this in a forked child: the queued hooks are the parent's, and so is the call that defers them."""
    hooks = hooks_of_thread()
    hooks.queue.clear()
    hooks.deferred = False
