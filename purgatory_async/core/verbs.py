"""The synchronous half of a purgatory: its verbs.

It names no loop, clock or future. The shell (`Purgatory`) supplies what touches them: the caller's thread, how
to wake a waiter, how to start and cancel a deadline.
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
    """Base of `Purgatory`, which adds loop and timer."""

    __slots__ = ()

    def try_complete_else_watch(  # noqa: C901, PLR0912 - inlined: calls would double its cost
        self, operation: DelayedOperation[Any], keys: Iterable[Hashable]
    ) -> bool:
        """Complete an operation now if its condition holds; else watch its keys until it ends. O(keys).

        One check suffices for any number of keys: nothing runs between the check and the watching on one loop.
        Another thread must change the condition first, then signal through the portal.

        Args:
            operation: A new one, whose timeout starts now; each can be watched once.
            keys: One or more hashables; duplicates count once.

        Returns:
            True only if this call completed it. After False it is pending, or ended otherwise in its check.

        Raises:
            ValueError: There are no keys.
            TypeError: ``keys`` is a ``str`` or ``bytes``, is not iterable, or a key is not hashable.
            PurgatoryError: The operation is pending or has ended; the call comes from inside a `try_complete`
                of this purgatory, from another loop, or without a running one.
            PurgatoryClosed: The purgatory is closed or draining.
            PurgatoryFull: ``max_pending`` operations are pending.
            BaseException: What `try_complete` raised. After any error nothing is registered.
        """
        if keys is not self._last_shared.of:  # else they were checked before
            keys = distinct_keys(keys)
        try:
            state = operation._state
        except AttributeError:
            raise not_an_operation(operation) from None
        if state is not NEW:
            raise watched_before(operation)
        if self._refusal is not None:
            raise self._refuse(keys)
        ident = self._ident  # a local: calling a slot directly costs 50 ns more
        fresh = ident() != self._runner._thread_id and self._arrive(watching=True)
        runner = self._runner
        hooks = self._hooks
        held = hooks.held
        hooks.held = True  # until it is watched: a hook could signal a key that it does not watch yet
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
                self._leave_loop()  # a call that raises changes nothing, not even the owner
            raise
        finally:
            hooks.held = held
            if hooks.queue and not held:
                hooks.run()
        end: object = operation._state
        return end is _COMPLETED

    def check_and_complete(self, key: Hashable, *, limit: int | None = None) -> int:
        """Check every operation that watches ``key``, oldest first. O(operations checked), amortised.

        Operations that hooks watch meanwhile are not part of this walk. An operation whose `try_complete` raises
        ends as failed; the walk goes on.

        Args:
            key: The key.
            limit: Stop after so many completions, such as 1 for one item; None checks all.

        Returns:
            How many completed in their check; 0 for an unknown key.

        Raises:
            PurgatoryError: Called from inside a `try_complete` of this purgatory, from another loop, or from another
                thread while the loop runs.
            TypeError, ValueError: ``limit`` is not None or an integer of at least 1.
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
        checked = (
            (found,)
            if not isinstance(found, dict)
            else list(found)
            if limit is None
            else self._in_turn(key, found)
        )
        return self._walk(key, checked, limit)  # type: ignore[arg-type]  # a watcher is an operation

    def complete_for_key(self, key: Hashable, result: object = None) -> int:
        """Complete every operation that watches ``key``, without a check. O(operations on the key).

        Args:
            key: The key. The operations leave all their other keys too.
            result: Becomes the result of each; None leaves it as it is.

        Returns:
            How many it completed; 0 for an unknown key.

        Raises:
            PurgatoryError: As `check_and_complete`.
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
        """End every operation that watches ``key`` as failed; their waiters raise the exception.

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
            The operations that it ended, oldest first.

        Raises:
            PurgatoryError: As `check_and_complete`.
        """
        return self._end_all(key, methodcaller("cancel"))

    def _end_all(
        self, key: Hashable, ends: Callable[[DelayedOperation[Any]], bool]
    ) -> list[DelayedOperation[Any]]:
        """Apply an ending to every operation on a key; returns the ended ones."""
        ident = self._ident
        if ident() != self._runner._thread_id:
            self._arrive(watching=False)
        return self._ended_by(ends, self._watchers_of(key), key)
