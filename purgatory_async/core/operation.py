"""The delayed operation: it waits, and ends exactly once.

              watch     admit    refuse  force_complete  fail    cancel     deadline  close
    new       checking  .        .       completed       failed  cancelled  .         .
    checking  .         pending  new     completed       failed  cancelled  .         .
    pending   .         .        .       completed       failed  cancelled  expired   closed

Watching moves a new operation into its first check. The check ends it, admits it, or a refusal (closed, full, an
exception) leaves it new. Any other event changes nothing, and no event moves an ended operation.

The slot ``_state`` holds an `Outcome` once the operation has ended, until then its place: `NEW`, an `Admission`,
or a purgatory. It ends once, synchronously, before a hook runs or a waiter wakes. Futures only carry wakeups,
never the outcome: a future cancelled in the same loop pass loses its result.
"""

from collections.abc import Generator
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from purgatory_async.clock import MAX_TIMEOUT, NUMBERS, check_timeout
from purgatory_async.core.hooks import HookQueue, hooks_of_thread
from purgatory_async.core.outcome import CANCELLED, COMPLETED, EXPIRED, FAILED, RUNS_HOOKS, Outcome, Phase
from purgatory_async.core.watch_lists import Watcher, keys_of
from purgatory_async.errors import PurgatoryError, check_exception, is_async, refuse_again
from purgatory_async.native import also_compiled

__all__ = [
    "NEW",
    "Admission",
    "DelayedOperation",
    "Outcome",
    "Place",
    "Waiter",
    "cannot_watch",
    "no_operation",
    "phase_of",
]

T = TypeVar("T")


class Waiter(Protocol):
    """A future of one waiting task; it carries no result."""

    def cancelled(self) -> bool:
        """Whether the waiting task was cancelled."""
        ...

    def __await__(self) -> Generator[Any, None, None]:
        """Suspend the task."""
        ...


class Place(Protocol):
    """Holds an operation until it ends."""

    def _end(self, operation: "DelayedOperation[Any]", outcome: Outcome, result: Any = None) -> bool:
        """End the operation: out of every list and the timer, then hooks and wakeups.

        A ``result`` that is not None becomes its result. Returns False, and changes nothing, if it has ended.
        """
        ...

    def _reschedule(self, operation: "DelayedOperation[Any]", timeout: float | None) -> bool:
        """Give the operation a checked timeout, from now on; False, and nothing changes, if it has ended."""
        ...

    def new_waiter(self, operation: "DelayedOperation[Any]") -> Waiter:
        """Return a future of the owning loop, for a task that awaits the operation."""
        ...


@also_compiled
class DelayedOperation(Watcher, Generic[T]):
    """Wait for a condition or a deadline; ends exactly once.

    Subclass it and override `try_complete` and, if needed, `on_complete` and `on_expiration`. Pass it with its
    keys to `Purgatory.run`; or to `Purgatory.try_complete_else_watch`, and await it or not.
    ``__slots__ = ()`` in the subclass (or its own slots) saves 100 bytes and some time per operation.

    Checks and hooks run in the context (`contextvars`) of the code that signals or ends the operation, and at its
    deadline in an empty one. Keep in the operation what they need of the context in which it was made.

    Args:
        timeout: Seconds from the moment it is watched. ``None`` and ``inf``: no deadline. Zero and less: it
            expires on the next loop turn if its condition does not hold at once.

    Raises:
        TypeError: ``timeout`` is neither ``None`` nor a number.
        ValueError: ``timeout`` is NaN, ``-inf``, or above 100 years.
        PurgatoryError: A second ``__init__``.

    Kafka's delayed fetch answers once enough bytes are available, or at the timeout with fewer:

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
    _waiters: Waiter | dict[Waiter, None] | HookQueue | None  # the last until its hooks have run
    _failure: tuple[BaseException, TracebackType | None]  # set only when FAILED

    _has_hooks = True  # not the library's own waits

    def __init__(self, timeout: float | None = None) -> None:
        refuse_again(self, "_state")
        if timeout is not None and not (type(timeout) in NUMBERS and 0 <= timeout <= MAX_TIMEOUT):
            timeout = check_timeout(timeout)
        self.timeout = timeout
        self.result = None
        self._state = NEW
        self._waiters = None
        self._next = None  # type: ignore[assignment]  # in no bucket

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("try_complete", "on_complete", "on_expiration"):
            if is_async(getattr(cls, name)):
                raise TypeError(
                    f"{cls.__name__}.{name} must be a plain function, not async: it runs between two steps of "
                    "the purgatory; start a task in on_complete for more work"
                )

    def __repr__(self) -> str:
        keys = f" on {', '.join(map(repr, self.keys))}" if self.keys else ""
        return f"<{type(self).__name__} {phase_of(self)}{keys} timeout={self.timeout}>"

    # To override.

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds: call `force_complete` and return its result.

        Called once before watching, and again at each check of one of its keys; `Purgatory.checking` is that
        key. It may read the same purgatory, but not watch in it or call its verbs for keys.

        Returns:
            Whether this call completed it. The default returns False: only a verb or the deadline ends it. A true
            value while the operation has not ended is a `RuntimeWarning`, once per class.
        """
        return False

    def on_complete(self) -> None:
        """Called once when it completes or expires; may set `result`, like a partial answer of an expired fetch.

        Hooks run one after another: if a hook or check ends an operation, its hooks run after that one. Awaiting the
        operation, also there, returns after them.
        """

    def on_expiration(self) -> None:
        """Called once after `on_complete`, only when it expires."""

    # To call.

    def force_complete(self, result: T | None = None) -> bool:
        """End it as completed.

        Args:
            result: Becomes `result`; None leaves `result` as it is.

        Returns:
            True for exactly one caller; False, and nothing changes, if it had ended already.
        """
        return self._state._end(self, COMPLETED, result)

    def fail(self, exception: BaseException) -> bool:
        """End it as failed; its waiters raise the exception, all the same object. Hooks do not run.

        Returns:
            Whether this call ended it.

        Raises:
            TypeError: ``exception`` is not an exception instance.
        """
        check_exception(exception)
        if type(self._state) is Outcome:
            return False
        self._failure = (exception, exception.__traceback__)
        return self._state._end(self, FAILED)

    def cancel(self) -> bool:
        """End it as cancelled; hooks do not run. Returns whether this call ended it."""
        return self._state._end(self, CANCELLED)

    def reschedule(self, timeout: float | None) -> bool:
        """Move its deadline, as often as there is progress; before it is watched, set `timeout`. O(1).

        Args:
            timeout: Seconds from now; None and ``inf`` for no deadline, zero and less: on the next loop turn.

        Returns:
            True; False, and nothing changes, once it has ended.

        Raises:
            TypeError, ValueError: ``timeout`` is invalid; after any error nothing has changed.
            PurgatoryFull, PurgatoryClosed: It has no deadline, and its timer is full or closed.
            PurgatoryError: Called from another loop.
        """
        return self._state._reschedule(self, check_timeout(timeout))

    # To read.

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        return self._state if type(self._state) is Outcome else None

    @property
    def exception(self) -> BaseException | None:
        """The exception that it failed with; None unless the outcome is FAILED."""
        return self._failure[0] if self._state is FAILED else None

    @property
    def keys(self) -> tuple[Any, ...]:
        """The keys that it watches, in order, without duplicates; empty before watching and after the end."""
        return keys_of(self) if phase_of(self) is Phase.PENDING else ()

    @property
    def abandoned(self) -> bool:
        """Whether every task that awaits it has been cancelled, but has not run since.

        An operation that consumes something for its waiter must not do so then: read this in `try_complete`, or
        before `force_complete`. False without a waiter, and once it has ended.
        """
        waiters = self._waiters
        if type(waiters) is dict:
            return bool(waiters) and all(waiter.cancelled() for waiter in waiters)
        if waiters is None or type(self._state) is Outcome:
            return False
        return waiters.cancelled()  # type: ignore[union-attr]  # not a dict: a sole waiter

    def __await__(self) -> Generator[Any, None, Outcome]:
        """Wait until it has ended. Any number of tasks may wait; cancelling one ends only that task's wait.

        Cancelling `Purgatory.run` also cancels the operation.

        Returns:
            The outcome.

        Raises:
            PurgatoryError: It was never watched and has not ended, so nothing would ever wake the task.
            BaseException: The exception that it failed with.
        """
        if type(state := self._state) is not Outcome:
            waiter = self._add_waiter(state.new_waiter(self))  # type: ignore[union-attr]  # not an Outcome: its place
            try:
                yield from waiter.__await__()
            except BaseException:
                self._drop_waiter(waiter)
                raise
        if self._state is not FAILED:
            # An outer call defers its hooks, and runs them before the next turn, or it runs the loop.
            if self._waiters is not None:
                yield
                self._run_hooks()
            return self._state  # type: ignore[return-value]  # an Outcome: woken only after it has ended
        try:
            self._raise_failure()
        finally:
            del self  # as in `_raise_failure`

    # Inside the library.

    def _expire(self) -> bool:
        """End it as expired; called by the timer. Returns False if it had ended."""
        return self._state._end(self, EXPIRED)

    def _lost_timer(self) -> None:
        """End it as closed; called when its timer closes, since it can no longer expire."""
        self._state._end(self, Outcome.CLOSED)

    @property
    def _waiting(self) -> bool:
        """Whether the timer must still expire it."""
        return type(self._state) is not Outcome

    def _run_hooks(self) -> None:
        """Run the hooks that have not run, although an outer call defers them."""
        if self._waiters is (hooks := hooks_of_thread()):
            hooks.run()

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
        """Remove a cancelled waiter; after the end the waker owns its future, and skips it."""
        waiters = self._waiters
        if waiters is waiter:
            self._waiters = None
        elif type(waiters) is dict:
            waiters.pop(waiter, None)

    def _raise_failure(self) -> NoReturn:
        """Raise its exception with the original traceback.

        Each waiter starts from the original: otherwise the chain would grow and keep all their frames alive.
        """
        exception, traceback = self._failure
        try:
            raise exception.with_traceback(traceback)
        finally:
            # A frame in the traceback must not keep the operation, which keeps the exception: that would be a cycle.
            del exception, traceback, self


@also_compiled
class New:
    """Place of operations that were never watched."""

    __slots__ = ()

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """End the operation; its hooks run now, unless others are running."""
        hooks = hooks_of_thread()
        end_unwatched(hooks, operation, outcome, result)
        hooks.run_unless_deferred()
        return True

    def _reschedule(self, operation: DelayedOperation[Any], timeout: float | None) -> bool:
        """Set its timeout, which starts when it is watched."""
        operation.timeout = timeout
        return True

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """Raise `PurgatoryError`: nothing would ever wake the waiter."""
        raise PurgatoryError(f"{operation!r} was never watched: cannot await it; watch it first")


NEW: Final = New()


@also_compiled
class Admission:
    """Place of an operation during its first check: in no list, but taken.

    Args:
        hooks: Takes an operation that ends here; the outermost call runs them.
    """

    __slots__ = ("_hooks",)

    def __init__(self, hooks: HookQueue) -> None:
        self._hooks = hooks

    def _end(self, operation: DelayedOperation[Any], outcome: Outcome, result: Any = None) -> bool:
        """End the operation; it is in no list."""
        end_unwatched(self._hooks, operation, outcome, result)
        return True

    def _reschedule(self, operation: DelayedOperation[Any], timeout: float | None) -> bool:
        """Set its timeout, which starts after the check."""
        operation.timeout = timeout
        return True

    def new_waiter(self, operation: DelayedOperation[Any]) -> Waiter:
        """Raise `PurgatoryError`: a check does not suspend."""
        raise PurgatoryError(f"{operation!r} is in its first check: cannot await it")


def end_unwatched(
    hooks: HookQueue, operation: DelayedOperation[Any], outcome: Outcome, result: object
) -> None:
    """End an operation that is in no list, and queue its hooks."""
    operation._state = outcome
    if result is not None:
        operation.result = result
    if outcome in RUNS_HOOKS and operation._has_hooks:
        hooks.add(operation)


def phase_of(operation: DelayedOperation[Any]) -> Phase | Outcome:
    """Where an operation is, or how it ended."""
    state = operation._state
    if isinstance(state, Outcome):
        return state
    if isinstance(state, New):
        return Phase.NEW
    return Phase.CHECKING if isinstance(state, Admission) else Phase.PENDING


def cannot_watch(operation: DelayedOperation[Any]) -> Exception:
    """The error for watching anything but a new operation; it names the state, because a subclass's repr may not."""
    if not isinstance(operation, DelayedOperation):
        return no_operation(operation)
    if getattr(operation, "_state", None) is None:
        return TypeError(f"{type(operation).__name__}.__init__ must call super().__init__(timeout)")
    return PurgatoryError(f"{operation!r} is {phase_of(operation)}: cannot watch it again; make a new one")


def no_operation(given: object) -> TypeError:
    """The error for watching something else, such as the coroutine of a wait."""
    return TypeError(f"operation must be a DelayedOperation, got {given!r}")
