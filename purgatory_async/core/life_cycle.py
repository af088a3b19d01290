"""How an operation is registered, checked and ended.

All states move before a hook runs: a walk goes over a snapshot of a key's operations, and releases the hooks last.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from purgatory_async.core.hooks import HookQueue, KeyRaised, hooks_of_thread
from purgatory_async.core.notifier import EventNotifier  # noqa: TC001 - one kind of import, seen by the architecture test
from purgatory_async.core.operation import NEW, Admission, DelayedOperation, Outcome, Waiter
from purgatory_async.core.reports import report
from purgatory_async.core.watch_lists import NO_KEYS, SharedList, Watcher, identity
from purgatory_async.core.watch_table import WatchTable
from purgatory_async.errors import PurgatoryClosed, PurgatoryFull

__all__ = ["CHECKING", "LifeCycle", "Runner", "Unowned", "warn_unended"]

_COMPLETED: Final = Outcome.COMPLETED
_EXPIRED: Final = Outcome.EXPIRED


class Runner(Protocol):
    """Identifies the thread that runs a loop: asyncio's loop itself, or a stand-in."""

    @property
    def _thread_id(self) -> int | None:
        """Ident of the thread that runs the loop now, or None."""


class Unowned:
    """Placeholder owner: forces every verb through `LifeCycle._arrive`; ``why`` is its repr, for messages."""

    __slots__ = ("_why",)

    _thread_id: int | None = None

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<{self._why}>"


CHECKING: Final = Unowned("in the middle of a try_complete")


class LifeCycle(WatchTable):
    """Watch table plus the life of its operations; base of `Verbs`."""

    __slots__ = (
        "_admission",
        "_emptied",
        "_hooks",
        "_ident",
        "_notifier",
        "_refusal",
        "_runner",
        "_start_timeout",
        "_unschedule",
        "_wake",
        "checking",
        "max_pending",
        "name",
    )

    # Set by the shell: the first two in its constructor, the others before the first operation is watched.
    _ident: Callable[[], int]  # the caller's thread
    _runner: Runner  # the purgatory's loop
    _hooks: HookQueue
    _admission: Admission
    _wake: Callable[[Any], None]  # takes an operation's `_waiters`
    _start_timeout: Callable[[DelayedOperation[Any], float], int | None]  # returns when it began, in ns
    _unschedule: Callable[[DelayedOperation[Any]], bool] | None  # None where unlinking is enough

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

    # Ending.

    def _end(  # noqa: C901 - inlined: calls would double its cost
        self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None
    ) -> bool:
        """End a pending operation: out of the timer and every list, then wakeups and hooks."""
        operation._state = outcome
        if result is not None:
            operation.result = result
        unschedule = self._unschedule
        if unschedule is not None:
            unschedule(operation)
        elif (following := operation._next) is not None:  # `TimingWheel.cancel`, inlined
            previous = operation._prev
            following._prev = previous
            previous._next = following
            operation._next = operation._prev = None  # type: ignore[assignment]  # in no bucket
        keys = operation._keys
        # `_leave`, inlined for a shared list, and for the sole watcher of its only key.
        try:
            if type(keys) is SharedList:
                del keys[operation]
                self._more_pending -= 1
                self._more_pairs -= keys.width
                if not keys:
                    self._give_up(keys)
            elif type(keys) is not tuple and self._watchers[keys] is operation:
                del self._watchers[keys]
            else:
                self._leave(operation)
        except BaseException as exception:  # noqa: BLE001 - as in _remove
            self._search_out(operation, exception)
        operation._keys = NO_KEYS
        older = operation._older
        newer = operation._newer
        older._newer = newer
        newer._older = older
        operation._older = operation._newer = None  # type: ignore[assignment]  # as in _remove
        waiters = operation._waiters
        if waiters is not None:
            operation._waiters = None
            wake = self._wake
            wake(waiters)
        hooks = self._hooks
        if (outcome is _COMPLETED or outcome is _EXPIRED) and operation._has_hooks:
            hooks.queue.append(operation)
        if self._notifier is not None or self._emptied is not None:
            self._announce_end(operation, outcome)
        if hooks.queue and not hooks.held:
            hooks.run()
        return True

    def _announce_end(self, operation: DelayedOperation[Any], outcome: Outcome) -> None:
        if self._notifier is not None:
            self._notifier.ended(operation, outcome)
        if self._emptied is not None and not self.pending:
            self._emptied()

    def _key_raised(self, watcher: Watcher, exception: BaseException) -> None:
        self._hooks.queue.append(KeyRaised(exception, watcher))

    # Walks. Hooks are held during one.

    def _walk(  # noqa: C901 - as above
        self, key: Hashable, operations: Iterable[DelayedOperation[Any]], limit: int | None = None
    ) -> int:
        """Check a key's operations; returns how many completed in their check."""
        completed = 0
        notifier = self._notifier
        hooks = self._hooks
        held = hooks.held
        hooks.held = True
        runner = self._runner
        self._runner = CHECKING
        self.checking = key
        try:
            for operation in operations:
                if operation._state is not self:
                    continue  # ended by the check of one before it
                if notifier is not None:
                    notifier.checked(operation)
                try:
                    if operation.try_complete() and operation._state is self:
                        warn_unended(operation, stacklevel=4)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as exception:  # noqa: BLE001 - it ends the operation, not the walk
                    _raised_in_check(operation, exception)
                state: object = operation._state
                if state is not self and state is _COMPLETED:
                    completed += 1
                    if completed == limit:
                        break
            if notifier is not None:
                # Before the hooks: what they watch comes after the signal.
                notifier.signalled(key, completed)
        finally:
            self._runner = runner
            self.checking = None
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()
        return completed

    def _end_everything(self) -> list[DelayedOperation[Any]]:
        """End all pending operations as closed; returns them, oldest first."""
        return self._ended_by(lambda operation: self._end(operation, Outcome.CLOSED), self._arrived())

    def _ended_by(
        self, ends: Callable[[DelayedOperation[Any]], bool], watchers: Iterable[Watcher], *signalled: Hashable
    ) -> list[DelayedOperation[Any]]:
        """Apply an ending to a snapshot of watchers, notify of a signalled key, run the hooks; returns the ended."""
        hooks = self._hooks
        held = hooks.held
        hooks.held = True
        try:
            snapshot = cast("list[DelayedOperation[Any]]", list(watchers))
            ended = [operation for operation in snapshot if ends(operation)]
            if self._notifier is not None:
                for key in signalled:
                    self._notifier.signalled(key, len(ended))
            return ended
        finally:
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()

    # Watching.

    def _refuse(self, keys: tuple[Hashable, ...]) -> PurgatoryClosed:
        return PurgatoryClosed(f"purgatory {self.name!r} is {self._refusal}: cannot watch", keys=keys)

    def _ended_in_check(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Notify of an operation that ended before it was watched."""
        if self._notifier is not None:
            self._notifier.submitted(operation, keys)
            self._notifier.ended(operation, cast("Outcome", operation._state))

    def _watch(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Register a new operation under every key and start its deadline, or change nothing."""
        if self._refusal is not None:  # closed in its first check
            raise self._refuse(keys)
        if self.max_pending is not None and self.pending >= self.max_pending:
            raise PurgatoryFull(
                f"purgatory {self.name!r} is full ({self.pending} pending, max_pending is {self.max_pending}): cannot "
                "watch; retry when some have ended",
                limit=self.max_pending,
            )
        shared = self._last_shared
        if shared.of is keys and type(operation).__eq__ is identity:
            # Another operation on the same keys: `_add`, inlined (python -m bench.proposal --callback).
            shared[operation] = None
            self._more_pending += 1
            self._more_pairs += shared.width
            operation._keys = shared
        elif len(keys) == 1 and self._watchers.setdefault(key := keys[0], operation) is operation:
            # The first watcher of its only key: as above (python -m bench.core --only task).
            operation._keys = keys if type(key) is tuple else key
        else:
            self._add(operation, keys)
        arrivals = self._arrivals
        operation._older = newest = arrivals._older
        operation._newer = arrivals
        newest._newer = arrivals._older = operation
        operation._state = self
        timeout = operation.timeout
        since_ns = None
        if timeout is not None:
            start_timeout = self._start_timeout
            try:
                since_ns = start_timeout(operation, timeout)
            except BaseException:
                self._remove(operation)
                operation._state = NEW
                raise
        if self._notifier is not None:
            self._notifier.submitted(operation, keys, since_ns)

    def check_invariants(self) -> None:
        """Assert that lists, counts and states agree. O(watched), for tests."""
        super().check_invariants()
        for operation in cast("Iterable[DelayedOperation[Any]]", self._arrived()):
            assert operation._state is self, (
                f"{operation!r} is listed in {self.name!r}, but its state is {operation._state!r}"
            )


_warned: Final[WeakSet[type]] = WeakSet()


def warn_unended(operation: DelayedOperation[Any], stacklevel: int) -> None:
    """Warn, once per class, that `try_complete` returned a true value without ending its operation."""
    kind = type(operation)
    if kind not in _warned:
        warnings.warn(
            f"{kind.__module__}.{kind.__qualname__}.try_complete returned a true value, but the operation has not "
            "ended; call self.force_complete() and return what it returns",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
        _warned.add(kind)  # after the warning: as an error it is raised every time


def _raised_in_check(operation: DelayedOperation[Any], exception: BaseException) -> None:
    if not operation.fail(exception):  # it had ended before it raised
        report(f"try_complete of {operation!r} raised", exception, operation)
