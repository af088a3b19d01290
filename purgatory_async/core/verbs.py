"""The synchronous half of a purgatory: its verbs.

It names no loop, clock or future. The shell (`Purgatory`) supplies what touches them: the caller's thread, how
to wake a waiter, how to start and cancel a deadline.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import methodcaller
from typing import Any, cast

from purgatory_async.clock import check_timeout
from purgatory_async.core.life_cycle import LifeCycle
from purgatory_async.core.operation import NEW, DelayedOperation, cannot_watch
from purgatory_async.core.outcome import COMPLETED
from purgatory_async.core.watch_table import distinct_keys
from purgatory_async.errors import check_exception, check_limit
from purgatory_async.native import also_compiled


@also_compiled
class Verbs(LifeCycle):
    """Base of `Purgatory`, which adds loop and timer."""

    __slots__ = ()

    def try_complete_else_watch(self, operation: DelayedOperation[Any], keys: Iterable[Hashable]) -> bool:
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
        keys = distinct_keys(keys)
        if getattr(operation, "_state", None) is not NEW:
            raise cannot_watch(operation)
        return self._admit(operation, keys)

    def _admit(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> bool:
        """Check a new operation, then watch distinct keys; `try_complete_else_watch` without its argument checks."""
        if self._refusal is not None:
            raise self._refuse(keys)
        fresh = self._arrive(watching=True)
        hooks = self._hooks
        # Until it is watched: a hook could signal a key that it does not watch yet.
        deferred, hooks.deferred = hooks.deferred, True
        try:
            self._check_first(operation, keys)
            if operation._state is NEW:
                self._watch(operation, keys)  # pyright: ignore[reportArgumentType]
        except BaseException:
            if fresh:
                self._leave_loop()  # a call that raises changes nothing, not even the owner
            raise
        finally:
            hooks.release(deferred)
        return operation._state is COMPLETED

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
        limit = check_limit("limit", limit)
        self._arrive(watching=False)
        return self._walk(key, self._watchers_of(key) if limit is None else self._in_turn(key), limit)

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
        self._arrive(watching=False)
        completed = 0
        hooks = self._hooks
        deferred, hooks.deferred = hooks.deferred, True
        try:
            for operation in cast("list[DelayedOperation[Any]]", self._watchers_of(key)):
                if operation.force_complete(result):
                    completed += 1
            if self._notifier is not None:
                self._notifier.signalled(key, completed)
        finally:
            hooks.release(deferred)
        return completed

    def fail_for_key(self, key: Hashable, exception: BaseException) -> int:
        """End every operation that watches ``key`` as failed; their waiters raise the exception.

        They raise the same object: its traceback shows the waiter that raised last. Raise a new one from it where it is
        handled later.

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

    def reschedule(self, operation: DelayedOperation[Any], timeout: float | None) -> bool:
        """Let an operation that is pending here expire at another time: `DelayedOperation.reschedule`. O(1).

        Args:
            operation: One that waits here.
            timeout: Seconds from now; None and ``inf`` for no deadline, zero and less: on the next loop turn.

        Returns:
            Whether it was pending here; otherwise nothing changes.

        Raises:
            TypeError, ValueError, PurgatoryFull, PurgatoryClosed: As `DelayedOperation.reschedule`; nothing changes.
            PurgatoryError: As `check_and_complete`.
        """
        timeout = check_timeout(timeout)
        self._arrive(watching=False)
        return operation._state is self and self._reschedule(operation, timeout)

    def _end_all(
        self, key: Hashable, ends: Callable[[DelayedOperation[Any]], bool]
    ) -> list[DelayedOperation[Any]]:
        """Apply an ending to every operation on a key; returns the ended ones."""
        self._arrive(watching=False)
        return self._ended_by(ends, self._watchers_of(key), key)
