"""Waiting for a key: `Purgatory.wait`, and the operations behind it, which have one waiter each and no hooks."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from typing import Any, TypeVar, cast, overload

from purgatory_async.core.operation import DelayedOperation, Outcome, Waiter
from purgatory_async.core.verbs import Verbs
from purgatory_async.core.watch_table import distinct_keys
from purgatory_async.errors import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
    check_callback,
    makes_coroutines,
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


class LookingWait(KeyedWait[T]):
    """A wait that ends with the first truthy value of an async function, called by the waiting task: a look.

    A look may suspend, and what it saw may be old when it returns. The keys are watched before the first look, and a
    check during a look causes another, so no signal is lost between a look and the wait. One look runs at a time; the
    end of the wait interrupts it as `asyncio.timeout` would.

    Args:
        purgatory: Where it waits.
        look: An async function without arguments.
        timeout: As for any operation.

    Raises:
        PurgatoryError: No task runs here.
    """

    __slots__ = ("_cancelling", "_due", "_look", "_looking", "_purgatory", "_struck", "_task", "_wakeup")

    def __init__(
        self, purgatory: "Waiting", look: Callable[[], Awaitable[T | None]], timeout: float | None
    ) -> None:
        super().__init__(timeout)
        task = asyncio.current_task()
        if task is None:
            raise PurgatoryError(
                f"no task is running: cannot wait with the async until {look!r}; await it in a task"
            )
        self._purgatory = purgatory
        self._look = look
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()  # requests to cancel it that came before
        self._struck = False  # this wait has cancelled its task, which is looking
        self._due = self._looking = False
        self._wakeup: Any = None  # the future of this step

    def try_complete(self) -> bool:
        """Have the task look again; a look under way is followed by another."""
        self._due = True
        if self._wakeup is not None and not self._looking:
            self._purgatory._dispatcher.wake(self._wakeup)
        return False

    def _given_up(self) -> bool:
        # In a look the task waits for something else than its future here, whose cancellation shows nothing.
        return self._task.cancelling() > self._cancelling and self.cancel()

    async def step(self) -> None:
        """Look once; without a value wait for a check or the end, unless a check came meanwhile."""
        wakeup = self._wakeup = self._purgatory.new_waiter(self)
        self._add_waiter(wakeup)
        wakeup.add_done_callback(self._interrupt)  # type: ignore[attr-defined]  # a future
        try:
            value = await self._looked()
            if value:
                self.force_complete(value)
            elif self._due:
                await asyncio.sleep(0)  # a look that signals its own key must not hold the loop
            elif self.outcome is None:
                await wakeup
        finally:
            self._drop_waiter(wakeup)
            self._wakeup = None

    async def _looked(self) -> T | None:
        """Look once; None also when the wait's end interrupted it."""
        self._due, self._looking = False, True
        try:
            value = await self._look()
        except asyncio.CancelledError:
            self._looking = False
            if not self._take_back():
                raise
            return None
        except Exception as error:
            self._looking = False
            self._take_back()
            if self.outcome is None:
                raise
            self._report(error)
            return None
        finally:
            self._looking = False
        self._take_back()
        self._cancelling = self._task.cancelling()  # the look went on after others' requests
        return value

    def _interrupt(self, _: object) -> None:
        """Cancel the task if it looks for a wait that has ended."""
        if self._looking and self.outcome is not None:
            self._struck = self._task.cancel()

    def _take_back(self) -> bool:
        """Take this wait's request to cancel the task back; False if there are others' or was none."""
        struck, self._struck = self._struck, False
        return struck and self._task.uncancel() <= self._cancelling

    def _report(self, error: Exception) -> None:
        """Tell the loop of an exception that the end of the wait goes before."""
        message = f"the async until {self._look!r} raised under a wait that had ended"
        self._task.get_loop().call_exception_handler({"message": message, "exception": error})


@also_compiled
class Waiting(Verbs):
    """Verbs plus `wait` for coroutines; base of `Purgatory`."""

    __slots__ = ("_new_future",)

    _new_future: Callable[[], Any]  # set by the shell, as in `LifeCycle`

    @overload
    async def wait(self, *keys: Hashable, until: None = None, timeout: float | None = None) -> Any:  # noqa: D418 - every name is documented
        """Wait for a result."""

    @overload
    async def wait(  # noqa: D418 - every name is documented
        self,
        *keys: Hashable,
        until: Callable[[], Coroutine[Any, Any, T | None]],
        timeout: float | None = None,
    ) -> T:
        """Wait for a look that sees something."""

    @overload
    async def wait(self, *keys: Hashable, until: Callable[[], T | None], timeout: float | None = None) -> T:  # noqa: D418 - every name is documented
        """Wait for a condition."""

    async def wait(
        self, *keys: Hashable, until: Callable[[], Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Wait for one of the keys; cancelling the task removes the wait at once. O(keys).

        Args:
            *keys: One or more hashables. A number behind a text or a tuple is refused, unless there is a ``timeout``.
            until: Ends the wait with its first truthy return value. Called now, and at each check of one of the
                keys. Without it the wait ends with the result given to `complete_for_key`. An async function, as one
                that looks into a database, is called in this task, one call at a time; a check during a call causes
                another, and the end of the wait interrupts it as `asyncio.timeout` would, so it must not consume what
                it finds. With a timeout of 0 it is called once, and not interrupted.
            timeout: Seconds, as for any operation.

        Returns:
            The value of ``until``, or the result given to `complete_for_key`.

        Raises:
            OperationExpired, OperationCancelled, PurgatoryClosed: It expired, `cancel_for_key` or `close` ended it.
            BaseException: What ``until`` raised, or the exception given to `fail_for_key`.
            ValueError, TypeError, PurgatoryError: As `try_complete_else_watch`.
        """
        if until is not None and makes_coroutines(until):
            return await wait_looking(self, keys, until, timeout)
        _check_keys(keys, timeout)
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


def _check_keys(keys: tuple[Hashable, ...], timeout: float | None) -> None:
    """Validate the keys of a wait; none may look like a timeout."""
    for key in keys:
        try:
            hash(key)
        except TypeError as error:
            raise unhashable(key, error) from None
    if timeout is None and len(keys) > 1:
        refuse_number(keys)


def unhashable(key: object, error: TypeError) -> TypeError:
    """The error for a key without a hash."""
    return TypeError(f"{error}: a watch key is hashable, {key!r} is not; give keys one by one")


async def wait_looking(
    purgatory: "Waiting",
    keys: tuple[Hashable, ...],
    look: Callable[[], Awaitable[T | None]],
    timeout: float | None,
) -> T:
    """`Purgatory.wait` with an async ``until``; with a timeout of 0 it looks once, for as long as that takes."""
    _check_keys(keys, timeout)
    wait = LookingWait(purgatory, look, timeout)
    if wait.timeout == 0:
        found = await look()
        return await purgatory.wait(*keys, until=lambda: found, timeout=0)
    keys = distinct_keys(keys)
    try:
        purgatory._admit(wait, keys)
        while wait.outcome is None:
            await wait.step()
        return wait.answer(keys)
    except BaseException:
        wait.cancel()
        raise
    finally:
        del wait  # as in `_raise_failure`
