"""A deadline for the body of an ``async with``, on a timer's clock: what `Timer.timeout` returns."""

import asyncio
from math import inf
from types import TracebackType
from typing import Final, Protocol, Self, cast

from purgatory_async.errors import PurgatoryClosed, PurgatoryError, refuse_again
from purgatory_async.loop.timer_handle import Home, TimerHandle
from purgatory_async.timing._entry import TimerNode


class _ScopeError(PurgatoryError, RuntimeError):
    """Raised for a call that a scope's state forbids; a ``RuntimeError`` too, as asyncio's timeouts raise."""


# Its states, as messages name them.
NEW: Final = "not entered"
ACTIVE: Final = "active"
EXPIRING: Final = "expiring"
EXPIRED: Final = "expired"
CLOSING: Final = "closing"
CLOSED: Final = "closed"
FINISHED: Final = "finished"


class _Timer(Home, Protocol):
    """The part of a timer that its scopes use."""

    def _enter(self, name: str, delay: float) -> None: ...
    def _now_ns(self) -> int: ...
    def _start(self, entry: TimerNode, delay_ns: int | None, now_ns: int) -> None: ...


class TimeoutScope:
    """An asynchronous context manager that limits the time of its body, as `asyncio.Timeout` does.

    At the deadline it cancels the task inside its body once, and turns that `asyncio.CancelledError` into a
    `TimeoutError`. It leaves cancellations by others alone. Scopes nest; each can be entered once, in a task.

    A deadline that passes while a task runs, as when code in the body moves a clock, interrupts the body in the loop's
    next turn; a body that ends before that has met it.
    """

    __slots__ = (
        "__weakref__",
        "_alarm",
        "_cancelling",
        "_deadline_ns",
        "_delay",
        "_state",
        "_strike",
        "_task",
        "_timer",
        "_when",
    )

    _task: asyncio.Task[object]  # while it is entered
    _cancelling: int  # how many cancellations of the task were under way before

    def __init__(self, timer: _Timer, delay: float | None, deadline_ns: int | None) -> None:
        refuse_again(self, "_timer")
        self._timer = timer
        self._delay = delay
        self._deadline_ns = deadline_ns
        self._when = delay if deadline_ns is None else deadline_ns / 1e9
        self._state: str = NEW
        self._alarm: _Alarm | None = None
        self._strike: asyncio.Handle | None = None  # the cancellation to come, in the loop's next turn

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._state} when={self._when}>"

    def when(self) -> float | None:
        """Return its deadline in seconds on the timer's clock; None and ``inf`` for none, as they were given."""
        return self._when

    def expired(self) -> bool:
        """Whether its deadline has interrupted the body."""
        return self._state in (EXPIRING, EXPIRED)

    def reschedule(self, delay: float | None) -> None:
        """Give it another deadline; it needs no room in a full timer. O(1).

        Args:
            delay: Seconds from now; None and ``inf`` for no deadline. Zero and less: on the next loop turn.

        Raises:
            RuntimeError: It is not entered, or over, or the body is already interrupted.
            TypeError, ValueError: ``delay`` is invalid; nothing changes.
            PurgatoryClosed: The timer is closed.
            PurgatoryError: Called from another loop.
        """
        if self._state is not ACTIVE:
            raise _ScopeError(f"timeout is {self._state}: cannot reschedule it")
        seconds = inf if delay is None else delay
        alarm = cast("_Alarm", self._alarm)
        if not alarm.reschedule(seconds):  # it has rung, and strikes in the next turn
            alarm = _Alarm(self, self._timer)
            self._timer._restart(alarm, seconds)
            self._silence()
            self._alarm = alarm
        self._delay = delay
        self._when = None if delay is None else alarm.when

    async def __aenter__(self) -> Self:
        """Start the deadline.

        Raises:
            RuntimeError: It was entered before, or no task runs.
            PurgatoryClosed, PurgatoryFull, PurgatoryError: As for `Timer.timeout`.
        """
        if self._state is not NEW:
            raise _ScopeError(f"{self!r} has already been entered: cannot enter it again; make a new one")
        task = asyncio.current_task()
        if task is None:
            raise _ScopeError(f"{self!r} must be entered inside a task, which its deadline interrupts")
        # A cancellation that has yet to reach the task will interrupt the body, so it is none from before
        # (python/cpython#134471, where `asyncio.timeout` takes it for its own).
        self._cancelling = max(0, task.cancelling() - getattr(task, "_must_cancel", False))
        timer = self._timer
        timer._enter("delay", inf if self._delay is None else self._delay)
        alarm = _Alarm(self, timer)
        now_ns = timer._now_ns()
        timer._start(alarm, None if self._deadline_ns is None else self._deadline_ns - now_ns, now_ns)
        self._alarm = alarm
        self._task = task
        self._state = ACTIVE
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the deadline.

        Raises:
            TimeoutError: It interrupted the body.
            PurgatoryClosed: The closing of the timer did.
        """
        self._silence()
        task = self._task
        del self._task
        if self._state is ACTIVE:
            self._state = FINISHED
            return
        self._state = EXPIRED if self._state is EXPIRING else CLOSED
        if task.uncancel() > self._cancelling or raised is None:
            return  # another cancelled the task too, or the body went on
        if isinstance(raised, asyncio.CancelledError):
            raise self._error() from raised
        self._explain(raised)
        if isinstance(raised, BaseExceptionGroup):
            for each in cast("BaseExceptionGroup[BaseException]", raised).exceptions:
                self._explain(each)

    def _error(self) -> Exception:
        if self._state is EXPIRED:
            return TimeoutError(f"timeout of {self._delay} s expired")
        return PurgatoryClosed(f"timer was closed during a timeout of {self._delay} s")

    def _explain(self, raised: BaseException) -> None:
        """Show the interruption as the cause of what the body raised while it was cancelled, as CPython 3.13 does."""
        while (context := raised.__context__) is not None:
            if isinstance(context, asyncio.CancelledError):
                raised.__context__ = error = self._error()
                error.__cause__ = error.__context__ = context
                return
            raised = context

    def _silence(self) -> None:
        """Withdraw the deadline, and the cancellation to come."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._strike is not None:
            self._strike.cancel()
            self._strike = None

    def _interrupt(self, state: str) -> None:
        """Cancel the task, or do it in the next turn if a task runs.

        That may be the task itself, or what it has called. Cancelled while it runs, it would be interrupted at its next
        suspension, which can be outside the body: before CPython 3.13 `asyncio.Task.uncancel` does not prevent that.
        """
        loop = self._task.get_loop()
        if loop.is_closed():  # the task will never run
            return
        if asyncio.current_task(loop) is None:
            self._cancel(state)
        else:
            self._strike = loop.call_soon(self._cancel, state)

    def _cancel(self, state: str) -> None:
        self._strike = None
        self._state = state
        self._task.cancel()


class _Alarm(TimerHandle):
    """The deadline of a scope; closing the timer ends the scope, too."""

    __slots__ = ("_scope",)

    def __init__(self, scope: TimeoutScope, home: Home) -> None:
        super().__init__(home, scope._interrupt, (EXPIRING,))
        self._scope = scope

    def _lost_timer(self) -> None:
        super()._lost_timer()
        self._scope._interrupt(CLOSING)
