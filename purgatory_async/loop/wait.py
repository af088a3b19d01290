"""The operations behind `Purgatory.wait`: one waiter each, no hooks."""

from collections.abc import Callable
from typing import Final, TypeVar, cast

from purgatory_async.core.operation import DelayedOperation, Outcome
from purgatory_async.errors import OperationCancelled, OperationExpired, PurgatoryClosed

__all__ = ["ConditionWait", "KeyedWait"]

T = TypeVar("T")

_COMPLETED: Final = Outcome.COMPLETED


class KeyedWait(DelayedOperation[T]):
    """A wait that ends with the result given to `complete_for_key`.

    It belongs to one task. Cancelling the task cancels its future at once, but the task removes the wait only when
    it runs, a loop pass later. A verb in between ends the wait as cancelled and does not count it.
    """

    __slots__ = ()

    _has_hooks = False

    def force_complete(self, result: T | None = None) -> bool:
        """End it as completed, unless its task was cancelled a moment ago."""
        waiter = self._waiters
        if waiter is not None and waiter.cancelled():  # type: ignore[union-attr]  # one waiter, never a dict
            self.cancel()
            return False
        return self._state._end(self, _COMPLETED, result)

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
        if outcome is _COMPLETED:
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
        self._raise_failure()
        raise AssertionError(f"{self!r} has not ended")


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
        value = self._until()
        return bool(value) and self.force_complete(value)
