"""How an operation is registered, checked and ended.

All states move before a hook runs: a walk goes over a snapshot of a key's operations, and releases the hooks last.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from purgatory_async.core.hooks import HookQueue, KeyRaised, hooks_of_thread
from purgatory_async.core.notifier import EventNotifier  # noqa: TC001 - one kind of import, seen by the architecture test
from purgatory_async.core.operation import NEW, Admission, DelayedOperation, Waiter
from purgatory_async.core.outcome import COMPLETED, EXPIRED, Outcome
from purgatory_async.core.owner import CHECKING, Runner
from purgatory_async.core.reports import report
from purgatory_async.core.watch_lists import Watcher
from purgatory_async.core.watch_table import WatchTable
from purgatory_async.errors import PurgatoryClosed, PurgatoryFull, check_result
from purgatory_async.native import also_compiled


class Deadlines(Protocol):
    """What a purgatory needs of its timer."""

    def _start_timeout(self, operation: DelayedOperation[Any], timeout: float) -> int | None:
        """Start a deadline; returns the nanoseconds from which it counts, None if it is infinite."""
        ...

    def _restart_timeout(self, operation: DelayedOperation[Any], timeout: float | None) -> int | None:
        """Move a deadline, or raise and change nothing; returns the nanoseconds from which it counts, if finite."""
        ...

    def _withdraw(self, entry: DelayedOperation[Any]) -> bool:
        """Forget a deadline."""
        ...


class Dispatcher(Protocol):
    """Wakes the waiters of one loop."""

    def wake(self, waiters: Any) -> None:
        """Wake an operation's `_waiters`."""


@also_compiled
class LifeCycle(WatchTable):
    """Watch table plus the life of its operations; base of `Verbs`."""

    __slots__ = (
        "_admission",
        "_dispatcher",
        "_emptied",
        "_hooks",
        "_notifier",
        "_refusal",
        "_runner",
        "checking",
        "max_pending",
        "name",
        "timer",
    )

    # Set by the shell: the first two in its constructor, the others before the first operation is watched.
    timer: Deadlines
    _runner: Runner  # the purgatory's loop
    _hooks: HookQueue
    _admission: Admission
    _dispatcher: Dispatcher

    checking: Hashable | None
    """In a check, the key given to `check_and_complete`. None otherwise, also in the first check and in hooks."""

    def __init__(self, name: str, max_pending: int | None) -> None:
        super().__init__()
        self.name = name
        self.max_pending = max_pending
        self.checking = None
        self._hooks = hooks_of_thread()
        self._notifier: EventNotifier | None = None  # None without an observer
        self._refusal: str | None = None  # why watching is refused: "closed" or "draining"
        self._emptied: Callable[[], None] | None = None  # called when the last operation has ended

    # Implemented by the shell.

    def _arrive(self, *, watching: bool) -> bool:
        """Refuse a wrong loop, a wrong thread or a call inside a check; returns whether it bound the loop."""
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    def _leave_loop(self) -> None:
        """Undo the binding to a loop."""
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """A future of the owning loop, for a task that awaits the operation."""
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    # Watching.

    def _refuse(self, keys: tuple[Hashable, ...]) -> PurgatoryClosed:
        return PurgatoryClosed(f"purgatory {self.name!r} is {self._refusal}: cannot watch", keys=keys)

    def _full(self) -> PurgatoryFull:
        return PurgatoryFull(
            f"purgatory {self.name!r} is full ({self.pending} pending, max_pending is {self.max_pending}): cannot "
            "watch; retry when some have ended",
            limit=self.max_pending,
        )

    def _check_first(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Check a new operation; it is new again afterwards, or has ended."""
        runner, self._runner = self._runner, CHECKING
        operation._state = admission = self._admission
        try:
            returned = operation.try_complete()
            if returned and operation._state is admission:
                warn_unended(operation, returned, stacklevel=5)
        finally:
            if self._runner is CHECKING:  # not in a child that was forked meanwhile
                self._runner = runner
            if operation._state is admission:
                operation._state = NEW
            elif self._notifier is not None:
                self._notifier.submitted(operation, keys)
                self._notifier.ended(operation, cast("Outcome", operation._state))

    def _watch(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Register a new operation under every key and start its deadline, or change nothing."""
        if self._refusal is not None:  # closed in its first check
            raise self._refuse(keys)
        if self.max_pending is not None and self.pending >= self.max_pending:
            raise self._full()
        self._add(operation, keys)
        operation._state = self
        since_ns = None
        if operation.timeout is not None:
            try:
                since_ns = self.timer._start_timeout(operation, operation.timeout)
            except BaseException:
                self._remove(operation)
                operation._state = NEW
                raise
        if self._notifier is not None:
            self._notifier.submitted(operation, keys, since_ns)

    def _reschedule(self, operation: DelayedOperation[Any], timeout: float | None) -> bool:
        """Move the deadline of an operation that is pending here, or raise and change nothing."""
        since_ns = self.timer._restart_timeout(operation, timeout)
        operation.timeout = timeout
        if self._notifier is not None:
            self._notifier.rescheduled(operation, since_ns)
        return True

    # Walks. Hooks are deferred during one.

    def _walk(self, key: Hashable, operations: Iterable[Watcher], limit: int | None = None) -> int:
        """Check a key's operations; returns how many completed in their check."""
        completed = 0
        deferred = self._hooks.defer()
        runner, self._runner = self._runner, CHECKING
        self.checking = key
        try:
            for operation in cast("Iterable[DelayedOperation[Any]]", operations):
                if operation._state is self and self._check_again(operation):
                    completed += 1
                    if completed == limit:
                        break
            if self._notifier is not None:
                # Before the hooks: what they watch comes after the signal.
                self._notifier.signalled(key, completed)
        finally:
            if self._runner is CHECKING:  # not in a child that was forked meanwhile
                self._runner = runner
            self.checking = None
            operation = operations = None  # type: ignore[assignment]  # as in `_raise_failure`
            self._hooks.release(deferred)
        return completed

    def _check_again(self, operation: DelayedOperation[Any]) -> bool:
        """Check a pending operation; returns whether it has completed. If it raises, it ends as failed."""
        if self._notifier is not None:
            self._notifier.checked(operation)
        try:
            returned = operation.try_complete()
            if returned and operation._state is self:
                warn_unended(operation, returned, stacklevel=5)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:  # noqa: BLE001 - it ends the operation, not the walk
            if not operation.fail(exception):  # it had ended before it raised
                report(f"try_complete of {operation!r} raised", exception, operation)
            completed = operation._state is COMPLETED
            del operation  # as in `_raise_failure`
            return completed
        return operation._state is COMPLETED

    # Ending.

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """End a pending operation: out of the timer and every list, then wakeups and hooks."""
        operation._state = outcome
        if result is not None:
            operation.result = result
        self.timer._withdraw(operation)
        self._remove(operation)
        waiters, operation._waiters = operation._waiters, None
        if waiters is not None:
            self._dispatcher.wake(waiters)
        hooks = self._hooks
        if (outcome is COMPLETED or outcome is EXPIRED) and operation._has_hooks:
            operation._waiters = hooks
            hooks.queue.append(operation)
        if self._notifier is not None:
            self._notifier.ended(operation, outcome)
        if self._emptied is not None and not self.pending:
            self._emptied()
        if hooks.queue and not hooks.deferred:
            hooks.run()
        return True

    def _key_raised(self, watcher: Watcher, exception: BaseException) -> None:
        self._hooks.queue.append(KeyRaised(exception, watcher))

    def _end_everything(self) -> list[DelayedOperation[Any]]:
        """End all pending operations as closed; returns them, oldest first."""
        return self._ended_by(lambda operation: self._end(operation, Outcome.CLOSED), self._arrived())

    def _ended_by(
        self, ends: Callable[[DelayedOperation[Any]], bool], watchers: Iterable[Watcher], *signalled: Hashable
    ) -> list[DelayedOperation[Any]]:
        """Apply an ending to a snapshot of watchers, notify of a signalled key, run the hooks; returns the ended."""
        deferred = self._hooks.defer()
        try:
            snapshot = cast("list[DelayedOperation[Any]]", list(watchers))
            ended = [operation for operation in snapshot if ends(operation)]
            if self._notifier is not None:
                for key in signalled:
                    self._notifier.signalled(key, len(ended))
            return ended
        finally:
            self._hooks.release(deferred)

    def check_invariants(self) -> None:
        """Assert that lists, counts and states agree. O(watched), for tests."""
        super().check_invariants()
        for operation in cast("Iterable[DelayedOperation[Any]]", self._arrived()):
            assert operation._state is self, (
                f"{operation!r} is listed in {self.name!r}, but its state is {operation._state!r}"
            )


_warned: Final[WeakSet[type]] = WeakSet()


def warn_unended(operation: DelayedOperation[Any], returned: object, stacklevel: int) -> None:
    """Warn, once per class, that `try_complete` returned a true value without ending its operation.

    Raises:
        TypeError: The value is a coroutine or an async generator.
    """
    check_result("try_complete", operation, returned)
    kind = type(operation)
    if kind not in _warned:
        warnings.warn(
            f"{kind.__module__}.{kind.__qualname__}.try_complete returned a true value, but the operation has not "
            "ended; call self.force_complete() and return what it returns",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
        _warned.add(kind)  # after the warning: as an error it is raised every time
