"""The handle of one callback on a `Timer`: it is the queue's entry itself and needs no lookup."""

from asyncio import Future
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Protocol

from purgatory_async.core.reports import report
from purgatory_async.errors import check_callback, check_result, refuse_again
from purgatory_async.native import also_compiled
from purgatory_async.timing._entry import TimerNode


class Home(Protocol):
    """The part of a timer that its handles use."""

    _never: set[TimerNode]

    def _withdraw(self, entry: TimerNode) -> bool: ...
    def _restart(self, handle: "TimerHandle", delay: float) -> None: ...


@also_compiled
class TimerHandle(TimerNode):
    """One pending callback; `Timer.call_later` and `Timer.call_at` make it."""

    __slots__ = ("__weakref__", "_args", "_callback", "_context", "_home", "_when")

    _home: Home | bool  # the timer while it waits; then whether it fired
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...] | None
    _context: Context | None  # None stands for an empty one
    _when: float  # in seconds

    def __init__(self, home: Home, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        refuse_again(self, "_home")
        check_callback("callback", callback)
        self._home = home
        self._callback = callback
        self._args = args
        # Do not keep an empty context.
        self._context = copy_context() or None
        self._next = None  # type: ignore[assignment]  # in no bucket

    def __repr__(self) -> str:
        state = "fired" if self.fired else "cancelled" if self.cancelled else f"callback={self._callback!r}"
        return f"<TimerHandle when={self.when} {state}>"

    @property
    def when(self) -> float:
        """The requested time in seconds on the timer's clock, not rounded to a tick."""
        return self._when

    @property
    def fired(self) -> bool:
        """Whether it was called; already True inside its own callback."""
        return self._home is True

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` or closing the timer cancelled it."""
        return self._home is False

    def cancel(self) -> bool:
        """Cancel it and drop callback and arguments at once; False if it had fired or been cancelled. O(1)."""
        home = self._home
        if home is True or home is False:
            return False
        self._home = False
        self._callback = self._args = self._context = None
        if not home._withdraw(self):
            home._never.discard(self)
        return True

    def reschedule(self, delay: float) -> bool:
        """Fire ``delay`` seconds from now instead, as `Timer.call_later`. O(1).

        Returns:
            True if it was pending; False, and nothing happens, once it has fired (also inside its own callback) or
            been cancelled.

        Raises:
            TypeError, ValueError: ``delay`` is invalid; nothing changes.
            PurgatoryError: Called from another loop.
        """
        home = self._home
        if home is True or home is False:
            return False
        home._restart(self, delay)
        return True

    # For the timer.

    @property
    def _waiting(self) -> bool:
        return not isinstance(self._home, bool)

    def _expire(self) -> bool:
        callback, args, context = self._callback, self._args, self._context
        if callback is None or args is None:
            return False
        self._home = True
        self._callback = self._args = self._context = None
        try:
            returned = (context or Context()).run(callback, *args)
            if returned is not None:
                check_result("callback", callback, returned)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:  # noqa: BLE001 - the pass goes on
            report(f"timer callback {callback!r} raised", exception, self)
        return True

    def _lost_timer(self) -> None:
        self._home = False
        self._callback = self._args = self._context = None


class Sleeper(TimerHandle):
    """A sleeping task; its callback wakes it, and so does closing the timer."""

    __slots__ = ("_future", "_wake")

    def __init__(self, home: Home, future: Future[None], wake: Callable[[Future[None]], None]) -> None:
        super().__init__(home, wake, (future,))
        self._future = future
        self._wake = wake

    def _lost_timer(self) -> None:
        super()._lost_timer()
        self._wake(self._future)
