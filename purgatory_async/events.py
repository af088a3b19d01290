"""What an observer is told: frozen values, times in integer nanoseconds of the purgatory's clock.

An operation is submitted once and ends once, also one that completes at once: at any moment submissions are the
ends plus what is pending. Signals are told even when nobody waited, so that a journal can answer what would have
happened with longer timeouts.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from purgatory_async.core.operation import DelayedOperation, Outcome

__all__ = ["KeySignalled", "Observer", "Observers", "OperationEnded", "OperationSubmitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSubmitted:
    """An operation was taken: it was watched, or it completed in its first check.

    Attributes:
        operation: The operation itself.
        operation_id: Counts from 1 in each purgatory.
        keys: The distinct keys, in order.
        timeout_ns: Its timeout; None without a deadline.
        at_ns: When.
    """

    operation: DelayedOperation[Any]
    operation_id: int
    keys: tuple[Hashable, ...]
    timeout_ns: int | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySignalled:
    """A key was checked, completed, failed or cancelled, whether or not anybody watched it.

    It is told after the ends that it brought, and before any hook runs: what a hook watches came after it.

    Attributes:
        key: The key.
        completed: How many operations this call completed (or otherwise ended).
        at_ns: When.
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
        keys: What it watched.
        outcome: How it ended.
        submitted_ns: When it was submitted.
        deadline_ns: Submission plus timeout, before rounding to a tick; None without a deadline.
        at_ns: When it ended; for an expired one, minus ``deadline_ns`` is how late it was.
        checks: How often it was asked whether it is time, the first time included.
    """

    operation: DelayedOperation[Any]
    operation_id: int
    keys: tuple[Hashable, ...]
    outcome: Outcome
    submitted_ns: int
    deadline_ns: int | None
    at_ns: int
    checks: int = 1


Event = OperationSubmitted | KeySignalled | OperationEnded


class Observer(Protocol):
    """Is told what happens in a purgatory."""

    def notify(self, event: Event) -> None:
        """Take note of an event; called synchronously, so be quick.

        An exception is reported to the loop's exception handler and does no harm.
        """


class Observers:
    """Several observers as one; each is told everything, in order.

    If some raise, the others are told all the same, and the first exception comes out (others are its notes).

    >>> class Printer:
    ...     def notify(self, event):
    ...         print(event.key)
    >>> Observers(Printer(), Printer()).notify(KeySignalled(key="door", completed=0, at_ns=0))
    door
    door
    """

    __slots__ = ("_observers",)

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def __repr__(self) -> str:
        return f"Observers{self._observers!r}"

    def notify(self, event: Event) -> None:
        """Tell every observer.

        Raises:
            Exception: What the first failing observer raised, after all were told.
        """
        failure: Exception | None = None
        for observer in self._observers:
            try:
                observer.notify(event)
            except Exception as exception:  # noqa: BLE001 - raised below, when all were told
                if failure is None:
                    failure = exception
                else:
                    failure.add_note(f"{observer!r} raised too: {exception!r}")
        if failure is not None:
            raise failure
