"""Events for an observer: frozen values, times in integer nanoseconds of the purgatory's clock.

Each operation is submitted once and ends once, also one that completes at once: submissions always equal ends
plus pending operations. Signals without a waiter are events too: a journal can then replay longer timeouts.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from purgatory_async.core.operation import DelayedOperation, Outcome
from purgatory_async.errors import check_callback, check_result

__all__ = [
    "KeySignalled",
    "Observer",
    "Observers",
    "OperationEnded",
    "OperationRescheduled",
    "OperationSubmitted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSubmitted:
    """An operation was accepted: it is watched, or it ended in its first check.

    Attributes:
        operation: The operation itself.
        operation_id: Counts from 1 in each purgatory.
        keys: The distinct keys, in order.
        timeout_ns: Its timeout; None without a deadline.
        at_ns: The time of submission.
    """

    operation: DelayedOperation[Any]
    operation_id: int
    keys: tuple[Hashable, ...]
    timeout_ns: int | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRescheduled:
    """A pending operation has another deadline, by its own `reschedule` or the purgatory's.

    Attributes:
        operation: The operation itself.
        operation_id: As in its `OperationSubmitted`.
        timeout_ns: From now to its new deadline; None for no deadline.
        at_ns: When it was moved.
    """

    operation: DelayedOperation[Any]
    operation_id: int
    timeout_ns: int | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySignalled:
    """A key was checked, completed, failed or cancelled, with or without watchers.

    It follows the events of the operations that it ended, and precedes every hook.

    Attributes:
        key: The key.
        completed: How many operations this call completed (or otherwise ended).
        at_ns: The time of the signal.
    """

    key: Hashable
    completed: int
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnded:
    """An operation ended; it has left every list, and its hooks have yet to run.

    Attributes:
        operation: The operation itself.
        operation_id: As in its `OperationSubmitted`.
        keys: The keys that it watched.
        outcome: How it ended.
        submitted_ns: The time of submission.
        deadline_ns: Submission plus timeout, before rounding to a tick, or where it was moved to; None without a
            deadline.
        at_ns: When it ended; ``at_ns - deadline_ns`` is the lateness of an expired one.
        checks: The number of its checks, the first one included.
    """

    operation: DelayedOperation[Any]
    operation_id: int
    keys: tuple[Hashable, ...]
    outcome: Outcome
    submitted_ns: int
    deadline_ns: int | None
    at_ns: int
    checks: int = 1


Event = OperationSubmitted | OperationRescheduled | KeySignalled | OperationEnded
KINDS: Final = (OperationSubmitted, OperationRescheduled, KeySignalled, OperationEnded)


class Observer(Protocol):
    """Receives the events of a purgatory."""

    def notify(self, event: Event) -> None:
        """Handle an event; called synchronously, so be quick. Exceptions go to the loop's exception handler."""


Handlers = Mapping[type[Any], Callable[[Any], None]]
"""What an observer does with events, by their class."""


class Handling:
    """An observer of some kinds of events only, each with its own handler. `Observers` calls it for no other kind."""

    __slots__ = ()

    def handlers(self) -> Handlers:
        """Return the handlers, by class of event."""
        raise NotImplementedError(f"{type(self).__name__} must have handlers")

    def notify(self, event: Event) -> None:
        """Handle an event, if it is of one of the kinds."""
        handler = self.handlers().get(type(event))
        if handler is not None:
            handler(event)


class Observers:
    """Pass every event to several observers, in order.

    If some raise, the others still get the event, and the first exception propagates with the others as notes.

    >>> class Printer:
    ...     def notify(self, event):
    ...         print(event.key)
    >>> Observers(Printer(), Printer()).notify(KeySignalled(key="door", completed=0, at_ns=0))
    door
    door
    """

    __slots__ = ("__weakref__", "_handlers", "_observers")

    def __init__(self, *observers: Observer) -> None:
        for observer in observers:
            check_callback("notify", observer.notify)
        self._observers = observers
        each: list[Handlers] = [
            observer.handlers() if isinstance(observer, Handling) else dict.fromkeys(KINDS, observer.notify)
            for observer in observers
        ]
        self._handlers = {kind: [handlers[kind] for handlers in each if kind in handlers] for kind in KINDS}

    def __repr__(self) -> str:
        return f"Observers{self._observers!r}"

    def notify(self, event: Event) -> None:
        """Notify every observer, then raise the first exception of any."""
        failure: Exception | None = None
        for handler in self._handlers[type(event)]:
            try:
                returned: object = handler(event)  # it should be None
                # To call it for each would cost more than most observers do.
                if returned is not None:
                    check_result("notify", _observer_of(handler), returned)
            except Exception as exception:  # noqa: BLE001 - raised below, after all are notified
                if failure is None:
                    failure = exception
                else:
                    failure.add_note(f"{_observer_of(handler)!r} raised too: {exception!r}")
        if failure is not None:
            raise failure


def _observer_of(handler: Callable[[Any], None]) -> object:
    return getattr(handler, "__self__", handler)
