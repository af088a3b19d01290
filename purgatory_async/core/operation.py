"""The delayed operation: something that waits, and ends exactly once.

                         try_complete_else_watch
        new ──────────────────────────────────────────▶ pending
         │                                                 │
         │ force_complete, fail, cancel                    │ the same; its deadline; close
         ▼                                                 ▼
        ended: completed · expired · cancelled · failed · closed

One slot, ``_state``, says where an operation is: an `Outcome` once it has ended, until then the place that holds
it: `NEW`, its `Admission`, or a purgatory. It moves once, synchronously, before a hook runs or a waiter wakes.
Futures only carry wakeups. They are never asked how it ended: a future cancelled in the same loop pass forgets
the result that it was just given.
"""

from collections.abc import Generator
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from purgatory_async.clock import MAX_TIMEOUT, check_timeout
from purgatory_async.core.hooks import HookQueue, hooks_of_thread
from purgatory_async.core.outcome import Outcome
from purgatory_async.core.watch_lists import Watcher, keys_of
from purgatory_async.errors import PurgatoryError, check_exception

__all__ = [
    "NEW",
    "Admission",
    "DelayedOperation",
    "Outcome",
    "Place",
    "Waiter",
    "not_an_operation",
    "watched_before",
]

T = TypeVar("T")

# An enum's member is looked up by its metaclass, 50 ns on Python 3.11; a global is free.
_COMPLETED: Final = Outcome.COMPLETED
_EXPIRED: Final = Outcome.EXPIRED
_CANCELLED: Final = Outcome.CANCELLED
_FAILED: Final = Outcome.FAILED


class Waiter(Protocol):
    """A future of one waiting task; it is woken, and carries nothing."""

    def cancelled(self) -> bool:
        """Whether the waiting task was cancelled."""

    def __await__(self) -> Generator[Any, None, None]:
        """Suspend the task."""


class Place(Protocol):
    """Where an operation is until it ends."""

    def _end(self, operation: "DelayedOperation[Any]", outcome: Outcome, result: Any = None) -> bool:
        """Move the operation to its end: out of every list and the timer, then hooks and wakeups.

        Args:
            operation: It is here.
            outcome: How it ends.
            result: Becomes its result, if not None.

        Returns:
            True; False if it has ended before, and nothing changes.
        """

    def new_waiter(self, operation: "DelayedOperation[Any]") -> Waiter:
        """A future of the loop that owns the place, for a task that awaits the operation."""


class DelayedOperation(Watcher, Generic[T]):
    """Something that waits for its condition or its deadline, whichever is first, and ends exactly once.

    Subclass it and override `try_complete` (is it time?) and, if you like, `on_complete` and `on_expiration`.
    Give it to `Purgatory.run` with its keys; or to `Purgatory.try_complete_else_watch`, and await it, or don't.
    ``__slots__ = ()`` in the subclass (or slots of its own) saves 100 bytes and some time an operation.

    Args:
        timeout: Seconds from the moment it is watched. ``None`` and ``inf``: no deadline. Zero and less: it
            expires on the next loop turn if its condition does not hold at once.

    Raises:
        TypeError: ``timeout`` is neither ``None`` nor a number.
        ValueError: ``timeout`` is NaN, ``-inf``, or above 100 years.

    Kafka's delayed fetch, an answer as soon as there are enough bytes, or what there is when the time is up:

    >>> class DelayedFetch(DelayedOperation[bytes]):
    ...     def __init__(self, log, min_bytes, timeout):
    ...         super().__init__(timeout)
    ...         self.log, self.min_bytes = log, min_bytes
    ...     def try_complete(self):
    ...         return len(self.log) >= self.min_bytes and self.force_complete()
    ...     def on_complete(self):
    ...         self.result = bytes(self.log)
    >>> fetch = DelayedFetch(bytearray(b"abc"), min_bytes=2, timeout=0.5)
    >>> fetch.try_complete(), fetch.outcome, fetch.result
    (True, <Outcome.COMPLETED: 'completed'>, b'abc')
    """

    # In all 128 bytes. While it is pending: 8 pointers for wheel, watch lists, place and waiters.
    __slots__ = ("__weakref__", "_failure", "_state", "_waiters", "result", "timeout")

    timeout: float | None
    result: T | None
    _state: Place | Outcome
    _waiters: Waiter | dict[Waiter, None] | None
    _failure: tuple[BaseException, TracebackType | None]  # only when FAILED

    # False in the library's own waits, which override no hook and are made by the hundred thousand.
    _has_hooks = True

    def __init__(self, timeout: float | None = None) -> None:
        if timeout is not None and not (
            (type(timeout) is float or type(timeout) is int) and 0.0 <= timeout <= MAX_TIMEOUT
        ):
            check_timeout(timeout)
        self.timeout = timeout
        self.result = None
        self._state = NEW
        self._waiters = None
        self._next = None  # type: ignore[assignment]  # in no bucket

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("try_complete", "on_complete", "on_expiration"):
            if iscoroutinefunction(cls.__dict__.get(name)):
                raise TypeError(
                    f"{cls.__name__}.{name} must be a plain function, not async: it runs between two steps of "
                    "the purgatory; start a task in on_complete if there is more to do"
                )

    def __repr__(self) -> str:
        state = self.outcome or ("new" if isinstance(self._state, New | Admission) else "pending")
        keys = f" on {', '.join(map(repr, self.keys))}" if self.keys else ""
        return f"<{type(self).__name__} {state}{keys} timeout={self.timeout}>"

    # To override.

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds: call `force_complete` and return what it returned.

        Called once before watching, and again whenever one of the keys is checked; `Purgatory.checking` is that
        key. Watching and the verbs for keys of the same purgatory are not allowed in here; reading it is.

        Returns:
            Whether this call completed it. The default returns False: only a verb or the deadline ends it. A true
            value of an operation that has not ended is a `RuntimeWarning`, once a class.
        """
        return False

    def on_complete(self) -> None:
        """Called once when it completed or expired; may set `result`, as an expired fetch's partial answer."""

    def on_expiration(self) -> None:
        """Called once after `on_complete`, only when it expired."""

    # To call.

    def force_complete(self, result: T | None = None) -> bool:
        """End it as completed.

        Args:
            result: Becomes `result`; None leaves what `try_complete` may have put there.

        Returns:
            True for exactly one caller; False if it had ended already, and nothing changes.
        """
        return self._state._end(self, _COMPLETED, result)

    def fail(self, exception: BaseException) -> bool:
        """End it as failed; whoever awaits it gets the exception. Hooks do not run.

        Returns:
            Whether this call ended it.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        if type(self._state) is Outcome:
            return False
        self._failure = (exception, exception.__traceback__)
        return self._state._end(self, _FAILED)

    def cancel(self) -> bool:
        """End it as cancelled; hooks do not run. Returns whether this call ended it."""
        return self._state._end(self, _CANCELLED)

    # To read.

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        state = self._state
        return state if type(state) is Outcome else None

    @property
    def exception(self) -> BaseException | None:
        """What it failed with; None unless the outcome is FAILED."""
        return self._failure[0] if self._state is _FAILED else None

    @property
    def keys(self) -> tuple[Any, ...]:
        """What it watches, in order, without duplicates; empty before and after."""
        if isinstance(self._state, Outcome | New | Admission):
            return ()
        return keys_of(self)

    @property
    def abandoned(self) -> bool:
        """Whether every task that awaited it has been cancelled, but has not run since to say so.

        For an operation that takes something for its waiter: to take it now would be to take it for nobody. Ask
        in `try_complete`, or before `force_complete`. False while nobody awaits it, and once it has ended.
        """
        waiters = self._waiters
        if type(waiters) is dict:
            return bool(waiters) and all(waiter.cancelled() for waiter in waiters)
        return waiters is not None and waiters.cancelled()  # type: ignore[union-attr]  # not a dict: a sole waiter

    def __await__(self) -> Generator[Any, None, Outcome]:
        """Wait until it has ended. Any number of tasks may; cancelling one only ends that task's waiting.

        `Purgatory.run` also cancels the operation then.

        Returns:
            The outcome.

        Raises:
            PurgatoryError: It was never watched and has not ended, so nothing would ever wake the task.
            BaseException: What it failed with, if it failed.
        """
        state = self._state
        if type(state) is not Outcome:
            waiter = self._add_waiter(state.new_waiter(self))  # type: ignore[union-attr]  # not an Outcome: its place
            try:
                yield from waiter.__await__()
            except BaseException:
                self._drop_waiter(waiter)
                raise
        if self._state is _FAILED:
            self._raise_failure()
        return self._state  # type: ignore[return-value]  # an Outcome: woken only after it has ended

    # Inside the library.

    def _expire(self) -> bool:
        """Its deadline has come, says the timer; False if it ended a moment before."""
        return self._state._end(self, _EXPIRED)

    def _lost_timer(self) -> None:
        """Its timer closes under it: without a deadline to come it must not wait for ever."""
        self._state._end(self, Outcome.CLOSED)

    @property
    def _waiting(self) -> bool:
        """Whether the timer, having handed it out, still has to expire it."""
        return type(self._state) is not Outcome

    def _add_waiter(self, waiter: Waiter) -> Waiter:
        waiters = self._waiters
        if waiters is None:
            self._waiters = waiter
        elif type(waiters) is dict:
            waiters[waiter] = None
        else:
            self._waiters = {waiters: None, waiter: None}  # type: ignore[dict-item]  # not a dict: a sole waiter
        return waiter

    def _drop_waiter(self, waiter: Waiter) -> None:
        """Forget a waiter that gave up; after the end its future is the waker's, which skips it."""
        waiters = self._waiters
        if waiters is waiter:
            self._waiters = None
        elif type(waiters) is dict:
            waiters.pop(waiter, None)

    def _raise_failure(self) -> None:
        """Raise what it failed with, with the traceback that it came with.

        Many waiters may raise one exception: each starts from the original traceback, or the chain would grow
        with each of them, and keep all their frames alive.
        """
        exception, traceback = self._failure
        try:
            raise exception.with_traceback(traceback)
        finally:
            del exception, traceback, self  # the frame is in the traceback: no cycle through it


class New:
    """Where operations are that were never watched."""

    __slots__ = ()

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """Move the operation to its end; its hooks run now, unless others are running."""
        hooks = hooks_of_thread()
        end_unwatched(hooks, operation, outcome, result)
        if not hooks.held:
            hooks.run()
        return True

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """Refuse: nothing would ever wake it.

        Raises:
            PurgatoryError: Always.
        """
        raise PurgatoryError(f"{operation!r} was never watched; awaiting it would hang: watch it first")


NEW: Final = New()


class Admission:
    """Where an operation is during its first check: not in any list, but no longer free to go elsewhere.

    Args:
        hooks: Takes an operation that ends here; whoever made the call runs them.
    """

    __slots__ = ("_hooks",)

    def __init__(self, hooks: HookQueue) -> None:
        self._hooks = hooks

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """Move the operation to its end; there is nothing it would have to leave."""
        end_unwatched(self._hooks, operation, outcome, result)
        return True

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """Refuse: a check does not suspend.

        Raises:
            PurgatoryError: Always.
        """
        raise PurgatoryError(f"{operation!r} cannot be awaited inside its own first check")


def end_unwatched(
    hooks: HookQueue, operation: DelayedOperation[Any], outcome: Outcome, result: object
) -> None:
    """End an operation that is in no list; queue it if its outcome has hooks."""
    operation._state = outcome
    if result is not None:
        operation.result = result
    if (outcome is _COMPLETED or outcome is _EXPIRED) and operation._has_hooks:
        hooks.queue.append(operation)


def not_an_operation(operation: object) -> TypeError:
    """The error for watching something else, or an operation that was not initialised."""
    if isinstance(operation, DelayedOperation):
        return TypeError(f"{type(operation).__name__}.__init__ must call super().__init__(timeout)")
    return TypeError(f"operation must be a DelayedOperation, got {operation!r}")


def watched_before(operation: DelayedOperation[Any]) -> PurgatoryError:
    """The error for watching an operation again; it names the state, which the operation's own repr may not."""
    place = "being checked" if isinstance(operation._state, Admission) else "pending"
    return PurgatoryError(
        f"{operation!r} is {operation.outcome or place}: cannot watch it again; make a new one"
    )
