"""The synchronous half of a purgatory: its verbs.

No loop, no clock, no future is named here. The shell (`Purgatory`) supplies what touches them: where the caller
runs, how a waiter is woken, how a deadline starts and is taken back.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import methodcaller
from typing import Any, Final

from purgatory_async.core.life_cycle import CHECKING, LifeCycle, warn_unended
from purgatory_async.core.operation import NEW, DelayedOperation, Outcome, not_an_operation, watched_before
from purgatory_async.core.watch_table import distinct_keys
from purgatory_async.errors import check_exception, check_limit

__all__ = ["Verbs"]

_COMPLETED: Final = Outcome.COMPLETED


class Verbs(LifeCycle):
    """The verbs; subclassed by `Purgatory`, which owns loop and timer."""

    __slots__ = ()

    # The verbs.

    def try_complete_else_watch(  # noqa: C901, PLR0912 - a call would cost as much as what it does
        self, operation: DelayedOperation[Any], keys: Iterable[Hashable]
    ) -> bool:
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
        if keys is not self._last_shared.of:  # else they were looked at before
            keys = distinct_keys(keys)
        try:
            state = operation._state
        except AttributeError:
            raise not_an_operation(operation) from None
        if state is not NEW:
            raise watched_before(operation)
        if self._refusal is not None:
            raise self._refuse(keys)
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
                if operation.try_complete() and operation._state is admission:
                    warn_unended(operation, stacklevel=3)
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
            PurgatoryError: Called from inside a `try_complete` of this purgatory, from another loop, or from another
                thread while the loop runs.
            TypeError, ValueError: ``limit`` is not None or an integer of at least 1.

        O(operations on the key), with a limit those asked, amortised.
        """
        if limit is not None:
            check_limit("limit", limit)
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        found = self._watchers.get(key)
        if found is None:
            if self._notifier is not None:
                self._notifier.signalled(key, 0)
            return 0
        asked = (
            (found,)
            if not isinstance(found, dict)
            else list(found)
            if limit is None
            else self._in_turn(key, found)
        )
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
        if self._notifier is not None or isinstance(found, dict):
            return len(self._end_all(key, methodcaller("force_complete", result)))
        if found is None:
            return 0
        return int(found.force_complete(result))  # type: ignore[attr-defined]  # a watcher is an operation

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

    def _end_all(
        self, key: Hashable, ends: Callable[[DelayedOperation[Any]], bool]
    ) -> list[DelayedOperation[Any]]:
        """Apply a verb to every operation on a key; returns those that it ended."""
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        return self._ended_by(ends, self._watchers_of(key), key)
