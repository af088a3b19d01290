"""Makes the events of a purgatory for its observer; a purgatory without an observer has no notifier."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from inspect import getattr_static
from math import inf
from types import FunctionType
from typing import Any

from purgatory_async.clock import seconds_to_ns
from purgatory_async.core.operation import DelayedOperation
from purgatory_async.core.outcome import Outcome
from purgatory_async.core.reports import report
from purgatory_async.errors import check_callback, check_result
from purgatory_async.events import (
    Event,
    KeySignalled,
    Observer,
    OperationEnded,
    OperationRescheduled,
    OperationSubmitted,
)

# A frozen value sets each field through ``object.__setattr__``: three quarters of the cost of an event (python -m
# bench.journal --only cost). So it starts as a plain object with the same slots, and its final class freezes it.


class _Submitted:
    __slots__ = OperationSubmitted.__slots__

    def __init__(
        self,
        operation: DelayedOperation[Any],
        operation_id: int,
        keys: tuple[Hashable, ...],
        timeout_ns: int | None,
        at_ns: int,
    ) -> None:
        self.operation = operation
        self.operation_id = operation_id
        self.keys = keys
        self.timeout_ns = timeout_ns
        self.at_ns = at_ns
        self.__class__ = OperationSubmitted  # type: ignore[assignment]  # see above


class _Signalled:
    __slots__ = KeySignalled.__slots__

    def __init__(self, key: Hashable, completed: int, at_ns: int) -> None:
        self.key = key
        self.completed = completed
        self.at_ns = at_ns
        self.__class__ = KeySignalled  # type: ignore[assignment]  # see above


class _Ended:
    __slots__ = OperationEnded.__slots__

    def __init__(
        self,
        submitted: OperationSubmitted,
        outcome: Outcome,
        deadline_ns: int | None,
        at_ns: int,
        checks: int,
    ) -> None:
        self.operation = submitted.operation
        self.operation_id = submitted.operation_id
        self.keys = submitted.keys
        self.outcome = outcome
        self.submitted_ns = submitted.at_ns
        self.deadline_ns = deadline_ns
        self.at_ns = at_ns
        self.checks = checks
        self.__class__ = OperationEnded  # type: ignore[assignment]  # see above


class EventNotifier:
    """Notifies an observer; keeps each pending operation's submission for its end.

    Args:
        observer: Receives the events.
        time_ns: The purgatory's clock.

    Raises:
        TypeError: ``observer`` has no method ``notify``, or is the class of an observer.
    """

    __slots__ = ("_checked", "_observer", "_pending", "_submitted", "_time_ns")

    def __init__(self, observer: Observer, time_ns: Callable[[], int]) -> None:
        if not callable(getattr(observer, "notify", None)):
            raise TypeError(f"observer must have a method notify(event), got {observer!r}")
        if isinstance(observer, type) and isinstance(getattr_static(observer, "notify"), FunctionType):
            raise TypeError(f"observer must be an observer, got its class {observer!r}; call it to make one")
        check_callback("notify", observer.notify)
        self._observer = observer
        self._time_ns = time_ns
        self._submitted = 0
        # By identity: equal operations are still distinct.
        self._pending: dict[int, OperationSubmitted] = {}
        self._checked: dict[int, int] = {}  # only operations checked again

    def submitted(
        self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...], since_ns: int | None = None
    ) -> None:
        """Notify that an operation was watched, or ended in its first check.

        Its time is ``since_ns``, from which its deadline counts, or the present if that is None.
        """
        timeout = operation.timeout
        timeout_ns = None if timeout is None or timeout == inf else seconds_to_ns(max(timeout, 0))
        self._submitted += 1
        at_ns = self._time_ns() if since_ns is None else since_ns
        event: Any = _Submitted(operation, self._submitted, keys, timeout_ns, at_ns)
        self._pending[id(operation)] = event
        self._notify(event)

    def rescheduled(self, operation: DelayedOperation[Any], since_ns: int | None) -> None:
        """Notify that a pending operation has another timeout, which counts from ``since_ns``; None for no deadline."""
        submitted = self._pending[id(operation)]
        at_ns = self._time_ns() if since_ns is None else since_ns
        timeout, timeout_ns, whole_ns = operation.timeout, None, None
        if since_ns is not None and timeout is not None:
            timeout_ns = seconds_to_ns(max(timeout, 0))
            whole_ns = since_ns - submitted.at_ns + timeout_ns
        self._pending[id(operation)] = replace(submitted, timeout_ns=whole_ns)
        self._notify(
            OperationRescheduled(
                operation=operation,
                operation_id=submitted.operation_id,
                timeout_ns=timeout_ns,
                at_ns=at_ns,
            )
        )

    def checked(self, operation: DelayedOperation[Any]) -> None:
        """Count a further check of a pending operation."""
        self._checked[id(operation)] = self._checked.get(id(operation), 0) + 1

    def ended(self, operation: DelayedOperation[Any], outcome: Outcome) -> None:
        """Notify that a submitted operation ended."""
        submitted = self._pending.pop(id(operation))
        timeout_ns = submitted.timeout_ns
        deadline_ns = None if timeout_ns is None else submitted.at_ns + timeout_ns
        checks = 1 + (self._checked.pop(id(operation), 0) if self._checked else 0)
        event: Any = _Ended(submitted, outcome, deadline_ns, self._time_ns(), checks)
        self._notify(event)

    def signalled(self, key: Hashable, completed: int) -> None:
        """Notify that a verb for a key is done."""
        event: Any = _Signalled(key, completed, self._time_ns())
        self._notify(event)

    def _notify(self, event: Event) -> None:
        try:
            returned: object = self._observer.notify(event)  # type: ignore[func-returns-value]
            if returned is not None:
                check_result("notify", self._observer, returned)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:  # noqa: BLE001 - an observer must do no harm
            report(f"observer {self._observer!r} raised at {event!r}", exception, self._observer)
