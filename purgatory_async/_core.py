"""The synchronous half of a purgatory: who waits on which key, and the one way an operation ends.

No loop, no clock, no future is named here. The shell (`Purgatory`) supplies what touches them: where the caller
runs, how a waiter is woken, how a deadline starts and is taken back. Everything decided here is decided before
any of the user's hooks runs: a verb walks a snapshot of the key's operations, moves states, and only then lets
the hooks go.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import methodcaller
from typing import Any, Final, cast

from purgatory_async._checks import check_exception, check_limit
from purgatory_async._errors import PurgatoryClosed, PurgatoryError, PurgatoryFull
from purgatory_async._hooks import HookQueue, hooks_of_thread
from purgatory_async._narrator import Narrator  # noqa: TC001 - one kind of import, seen by the architecture test
from purgatory_async._operation import NEW, Admission, DelayedOperation, Outcome, Waiter, not_an_operation
from purgatory_async._owner import CHECKING, Runner
from purgatory_async._report import report
from purgatory_async._watchers import Watcher, WatchTable, distinct_keys, in_turn

__all__ = ["PurgatoryCore"]

_COMPLETED: Final = Outcome.COMPLETED
_EXPIRED: Final = Outcome.EXPIRED


class PurgatoryCore(WatchTable):
    """Watch table plus life cycle; subclassed by `Purgatory`, which owns loop and timer.

    Args:
        name: For messages.
        max_pending: How many operations may be pending; None for any number.
    """

    __slots__ = (
        "_admission",
        "_emptied",
        "_hooks",
        "_ident",
        "_narrator",
        "_refusal",
        "_runner",
        "_start_timeout",
        "_unschedule",
        "_wake",
        "max_pending",
        "name",
    )

    # Supplied by the shell, the first two at once, the others before the first operation is watched.
    _ident: Callable[[], int]  # which thread the caller is on
    _runner: Runner  # its loop
    _hooks: HookQueue
    _admission: Admission
    _wake: Callable[[Any], None]  # takes what an operation has in `_waiters`
    _start_timeout: Callable[[DelayedOperation[Any], float], int | None]  # returns the deadline in ns
    _unschedule: Callable[[DelayedOperation[Any]], bool]

    def __init__(self, name: str, max_pending: int | None) -> None:
        super().__init__()
        self.name = name
        self.max_pending = max_pending
        self._hooks = hooks_of_thread()
        self._narrator: Narrator | None = None  # tells the observer, if there is one
        self._refusal: str | None = None  # why nothing new is taken: "closed" or "draining"
        self._emptied: Callable[[], None] | None = None  # called when the last operation has ended

    # What the shell must add.

    def _arrive(self, *, watching: bool) -> bool:
        """See that the caller may be here: right loop, right thread, not inside a check.

        Returns:
            Whether the purgatory has only now found its loop.
        """
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    def _leave_loop(self) -> None:
        """Belong to no loop again."""
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """A future of the owning loop, for a task that awaits the operation."""
        raise NotImplementedError(f"the shell of {self.name!r} knows the loop")

    # The verbs.

    def try_complete_else_watch(self, operation: DelayedOperation[Any], keys: Iterable[Hashable]) -> bool:
        """Complete an operation now if its condition holds; else watch its keys until it ends.

        One check, however many keys: nothing can slip in between the check and the watching on one loop. A
        thread changes the condition first and signals through the portal after.

        Args:
            operation: A new one; each can be watched once.
            keys: One or more hashables; repeated ones count once. Its timeout starts now.

        Returns:
            True only if this call completed it. After False it is pending, or it ended otherwise in its check.

        Raises:
            ValueError: There are no keys.
            TypeError: ``keys`` is a ``str`` or ``bytes`` (did you mean a list of one?), is not iterable, or a
                key is not hashable.
            PurgatoryError: The operation is pending or has ended; the call comes from inside a `try_complete`
                of this purgatory, from another loop, or without a running one.
            PurgatoryClosed: The purgatory is closed or draining.
            PurgatoryFull: ``max_pending`` operations are pending.

        After an error nothing is registered. What `try_complete` raises comes out too. O(keys).
        """
        if type(keys) is not tuple or not (len(keys) == 1 or 0 < len(set(keys)) == len(keys)):
            keys = distinct_keys(keys)
        hash(keys[0])
        try:
            state = operation._state
        except AttributeError:
            raise not_an_operation(operation) from None
        if state is not NEW:
            raise PurgatoryError(f"{operation!r} can be watched only once; make a new operation")
        if self._refusal is not None:
            raise self._refuse()
        ident = self._ident  # a callable in a slot is no method: called in one go it costs 50 ns more
        fresh = ident() != self._runner._thread_id and self._arrive(watching=True)
        runner = self._runner
        hooks = self._hooks
        held = hooks.held
        hooks.held = True  # until it is watched: a hook in between could signal a key it is not yet on
        operation._state = admission = self._admission
        self._runner = CHECKING
        try:
            try:
                operation.try_complete()
            finally:
                self._runner = runner
                if operation._state is not admission:
                    self._ended_in_check(operation, keys)
                else:
                    operation._state = NEW
            if operation._state is NEW:
                self._watch(operation, keys)
        except BaseException:
            if fresh:
                self._leave_loop()  # a call that raises has changed nothing, not even whose this is
            raise
        finally:
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()
        end: object = operation._state
        return end is _COMPLETED

    def check_and_complete(self, key: Hashable, *, limit: int | None = None) -> int:
        """Ask every operation that watches ``key`` whether it is time now, oldest first.

        Those that are watched by hooks meanwhile are not part of this walk. An operation whose `try_complete`
        raises ends as failed; the others are checked all the same.

        Args:
            key: The key.
            limit: Stop when so many have completed; None to ask them all. With 1, one thing goes to one taker.

        Returns:
            How many completed in their check; 0 for an unknown key.

        Raises:
            PurgatoryError: Called from inside a `try_complete` of this purgatory, or from another loop.
            TypeError, ValueError: ``limit`` is not None or an integer of at least 1.

        O(operations on the key), with a limit those asked.
        """
        if limit is not None:
            check_limit("limit", limit)
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        found = self._watchers.get(key)
        if found is None:
            if self._narrator is not None:
                self._narrator.signalled(key, 0)
            return 0
        asked = (found,) if type(found) is not dict else list(found) if limit is None else in_turn(found)
        return self._walk(key, asked, limit)  # type: ignore[arg-type]  # a watcher is an operation

    def complete_for_key(self, key: Hashable, result: object = None) -> int:
        """Complete every operation that watches ``key``, without asking its condition.

        Args:
            key: The key. They leave all their other keys too.
            result: Becomes the result of each; None leaves what an operation has.

        Returns:
            How many it completed; 0 for an unknown key.

        Raises:
            PurgatoryError: As `check_and_complete`.

        O(operations on the key).
        """
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        found = self._watchers.get(key)
        if self._narrator is not None or type(found) is dict:
            return len(self._end_all(key, methodcaller("force_complete", result)))
        if found is None:
            return 0
        return int(found.force_complete(result))  # type: ignore[union-attr]  # a watcher is an operation

    def fail_for_key(self, key: Hashable, exception: BaseException) -> int:
        """End every operation that watches ``key`` as failed; whoever awaits one gets the exception.

        Returns:
            How many it ended.

        Raises:
            TypeError: ``exception`` is not an exception instance.
            PurgatoryError: As `check_and_complete`.
        """
        check_exception(exception)
        return len(self._end_all(key, methodcaller("fail", exception)))

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation[Any]]:
        """End every operation that watches ``key`` as cancelled; they leave all their other keys too.

        Returns:
            Those it ended, oldest first.

        Raises:
            PurgatoryError: As `check_and_complete`.
        """
        return self._end_all(key, methodcaller("cancel"))

    # The one way to the end.

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """Move a pending operation to its end: out of the timer and every list, then wakeups and hooks."""
        operation._state = outcome
        if result is not None:
            operation.result = result
        if operation._next is not None:
            unschedule = self._unschedule
            unschedule(operation)
        keys = operation._keys
        if type(keys) is tuple:
            self._leave(keys, operation)
        elif self._watchers[keys] is operation:
            # The sole watcher of its only key: `_leave`, written out (python -m bench.core --only task).
            del self._watchers[keys]
        else:
            self._leave((keys,), operation)
        operation._keys = None
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
        if self._narrator is not None:
            self._narrator.ended(operation, outcome)
        if self._emptied is not None and not self._watchers:
            self._emptied()
        if hooks.queue and not hooks.held:
            hooks.run()
        return True

    # The walks. While one is on, hooks are held.

    def _walk(
        self, key: Hashable, operations: Iterable[DelayedOperation[Any]], limit: int | None = None
    ) -> int:
        """Check operations on a key; returns how many completed in their check."""
        completed = 0
        narrator = self._narrator
        hooks = self._hooks
        held = hooks.held
        hooks.held = True
        runner = self._runner
        self._runner = CHECKING
        try:
            for operation in operations:
                if operation._state is not self:
                    continue  # ended by the check of one before it
                if narrator is not None:
                    narrator.checked(operation)
                try:
                    operation.try_complete()
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as exception:  # noqa: BLE001 - it ends the operation, not the walk
                    _raised_in_check(operation, exception)
                state: object = operation._state
                if state is not self and state is _COMPLETED:
                    completed += 1
                    if completed == limit:
                        break
            if narrator is not None:
                # Before the hooks: what they watch was not there when the key was signalled.
                narrator.signalled(key, completed)
        finally:
            self._runner = runner
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()
        return completed

    def _end_all(
        self, key: Hashable, ends: Callable[[DelayedOperation[Any]], bool]
    ) -> list[DelayedOperation[Any]]:
        """Apply a verb to every operation on a key; returns those that it ended."""
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        return self._ended_by(ends, self._watchers_of(key), key)

    def _end_everything(self) -> list[DelayedOperation[Any]]:
        """End all pending operations as closed; returns them, oldest first."""
        return self._ended_by(lambda operation: self._end(operation, Outcome.CLOSED), self._arrived())

    def _ended_by(
        self, ends: Callable[[DelayedOperation[Any]], bool], watchers: Iterable[Watcher], *signalled: Hashable
    ) -> list[DelayedOperation[Any]]:
        """Apply an ending to a snapshot of watchers, tell of a signalled key, let the hooks run; returns the ended."""
        hooks = self._hooks
        held = hooks.held
        hooks.held = True
        try:
            snapshot = cast("list[DelayedOperation[Any]]", list(watchers))
            ended = [operation for operation in snapshot if ends(operation)]
            if self._narrator is not None:
                for key in signalled:
                    self._narrator.signalled(key, len(ended))
            return ended
        finally:
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()

    # Watching.

    def _refuse(self) -> PurgatoryClosed:
        return PurgatoryClosed(f"purgatory {self.name!r} is {self._refusal} and takes nothing new")

    def _ended_in_check(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Tell of an operation that never got as far as to be watched."""
        if self._narrator is not None:
            self._narrator.submitted(operation, keys)
            self._narrator.ended(operation, cast("Outcome", operation._state))

    def _watch(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """Register a new operation under every key and start its deadline, or leave nothing behind."""
        if self._refusal is not None:  # closed in its first check
            raise self._refuse()
        if self.max_pending is not None and self.pending >= self.max_pending:
            raise PurgatoryFull(
                f"purgatory {self.name!r} is full: {self.pending} operations are pending, max_pending is "
                f"{self.max_pending}; try again when some have ended"
            )
        key = keys[0]
        if len(keys) == 1 and self._watchers.setdefault(key, operation) is operation:
            # The first watcher of its only key: `_add`, written out (python -m bench.core --only task).
            operation._keys = keys if type(key) is tuple else key
            arrivals = self._arrivals
            operation._older = newest = arrivals._older
            operation._newer = arrivals
            newest._newer = arrivals._older = operation
        else:
            self._add(operation, keys)
        operation._state = self
        timeout = operation.timeout
        deadline_ns = None
        if timeout is not None:
            start_timeout = self._start_timeout
            try:
                deadline_ns = start_timeout(operation, timeout)
            except BaseException:
                self._remove(operation)
                operation._state = NEW
                raise
        if self._narrator is not None:
            self._narrator.submitted(operation, keys, deadline_ns)

    def check_invariants(self) -> None:
        """Assert that lists, counts and states agree. O(watched), for tests."""
        super().check_invariants()
        for operation in cast("Iterable[DelayedOperation[Any]]", self._arrived()):
            assert operation._state is self, f"{operation!r} is listed in {self.name!r} but is elsewhere"


def _raised_in_check(operation: DelayedOperation[Any], exception: BaseException) -> None:
    if not operation.fail(exception):  # it had ended before it raised
        report(f"try_complete of {operation!r} raised", exception, operation)
