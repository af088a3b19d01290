"""Waiting for a key: `Purgatory.wait`, and the operations behind it, which have one waiter each and no hooks."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast, overload

from purgatory_async.core.operation import DelayedOperation, Outcome, Waiter
from purgatory_async.core.verbs import Verbs
from purgatory_async.core.watch_table import distinct_keys
from purgatory_async.errors import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    check_callback,
    refuse_number,
    returned_async,
)
from purgatory_async.native import also_compiled

T = TypeVar("T")


@also_compiled
class KeyedWait(DelayedOperation[T]):
    """A wait that ends with the result given to `complete_for_key`.

    It belongs to one task. Cancelling the task cancels its future at once, but the task removes the wait only when
    it runs, a loop pass later. A verb in between ends the wait as cancelled and does not count it.
    """

    __slots__ = ()

    _has_hooks = False

    def force_complete(self, result: T | None = None) -> bool:
        """End it as completed, unless its task was cancelled a moment ago."""
        return not self._given_up() and super().force_complete(result)

    def fail(self, exception: BaseException) -> bool:
        """End it as failed, unless its task was cancelled a moment ago."""
        return not self._given_up() and super().fail(exception)

    def _expire(self) -> bool:
        return not self._given_up() and super()._expire()

    def _given_up(self) -> bool:
        return self.abandoned and self.cancel()

    def answer(self, keys: tuple[object, ...]) -> T:
        """Return the ended wait's result to its task.

        Raises:
            OperationExpired, OperationCancelled, PurgatoryClosed: As it ended.
            BaseException: The exception that it failed with.
        """
        outcome = self._state
        if outcome is Outcome.COMPLETED:
            return cast("T", self.result)
        names = ", ".join(map(repr, keys))
        if outcome is Outcome.EXPIRED:
            raise OperationExpired(
                f"nothing completed the wait on {names} within {self.timeout} s",
                keys=keys,
                timeout=self.timeout,
            )
        if outcome is Outcome.CANCELLED:
            raise OperationCancelled(f"the wait on {names} was cancelled for its key", keys=keys)
        if outcome is Outcome.CLOSED:
            raise PurgatoryClosed(f"the purgatory was closed under the wait on {names}", keys=keys)
        try:
            self._raise_failure()
        finally:
            del self  # as in `_raise_failure`


@also_compiled
class ConditionWait(KeyedWait[T]):
    """A wait that ends with the first truthy value of a callable.

    Args:
        until: Called without arguments, once before watching and at each check of one of the keys.
        timeout: As for any operation.
    """

    __slots__ = ("_until",)

    def __init__(self, until: Callable[[], T], timeout: float | None) -> None:
        super().__init__(timeout)
        self._until = until

    def try_complete(self) -> bool:
        """Call the condition; a truthy value is the result."""
        if self._given_up():
            return False  # waiter cancelled: do not consume
        try:
            value = self._until()
            if not value:
                return False
            if isinstance(value, Awaitable | AsyncGenerator):  # no condition is true by that
                raise returned_async("until", self._until, cast("object", value))
            return self.force_complete(value)
        finally:
            del self  # as in `_raise_failure`


@also_compiled
class Waiting(Verbs):
    """Verbs plus `wait` for coroutines; base of `Purgatory`."""

    __slots__ = ("_new_future",)

    _new_future: Callable[[], Any]  # set by the shell, as in `LifeCycle`

    @overload
    async def wait(self, *keys: Hashable, until: None = None, timeout: float | None = None) -> Any:  # noqa: D418 - every name is documented
        """Wait for a result."""

    @overload
    async def wait(self, *keys: Hashable, until: Callable[[], T | None], timeout: float | None = None) -> T:  # noqa: D418 - every name is documented
        """Wait for a condition."""

    async def wait(
        self, *keys: Hashable, until: Callable[[], Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Wait for one of the keys; cancelling the task removes the wait at once. O(keys).

        Args:
            *keys: One or more hashables. A number behind a text or a tuple is refused, unless there is a ``timeout``.
            until: A plain function; ends the wait with its first truthy return value. Called now, and at each check
                of one of the keys. Without it the wait ends with the result given to `complete_for_key`.
            timeout: Seconds, as for any operation.

        Returns:
            The value of ``until``, or the result given to `complete_for_key`.

        Raises:
            OperationExpired, OperationCancelled, PurgatoryClosed: It expired, `cancel_for_key` or `close` ended it.
            BaseException: What ``until`` raised, or the exception given to `fail_for_key`.
            ValueError, TypeError, PurgatoryError: As `try_complete_else_watch`.
        """
        _check_hashable(keys)
        if timeout is None and len(keys) > 1:
            refuse_number(keys)
        if until is None:
            operation: KeyedWait[Any] = KeyedWait(timeout)
        else:
            check_callback("until", until)
            operation = ConditionWait(until, timeout)
        keys = distinct_keys(keys)
        self._admit(operation, keys)
        if operation.outcome is None:
            try:
                future = operation._waiters = self.new_waiter(operation)
                await future
            except BaseException:
                operation.cancel()
                raise
        try:
            return operation.answer(keys)
        finally:
            del operation  # as in `_raise_failure`

    wait.__qualname__ = "Purgatory.wait"  # where users find it

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:  # noqa: ARG002 - other places name it
        """Return a future of the owning loop, for a task that awaits the operation."""
        self._arrive(watching=True)
        return self._new_future()  # type: ignore[no-any-return]  # a future


def _check_hashable(keys: tuple[Hashable, ...]) -> None:
    for key in keys:
        try:
            hash(key)
        except TypeError as error:
            raise unhashable(key, error) from None


def unhashable(key: object, error: TypeError) -> TypeError:
    """The error for a key without a hash."""
    return TypeError(f"{error}: a watch key is hashable, {key!r} is not; give keys one by one")
