"""Turns what happens in a purgatory into events for its observer; without an observer none of this exists."""

from collections.abc import Callable, Hashable
from math import inf
from typing import Any

from purgatory_async._operation import DelayedOperation
from purgatory_async._outcome import Outcome
from purgatory_async._report import report
from purgatory_async.clock import seconds_to_ns
from purgatory_async.events import Event, KeySignalled, Observer, OperationEnded, OperationSubmitted

__all__ = ["Narrator"]


class Narrator:
    """Remembers of each pending operation what its end must tell, and tells.

    Args:
        observer: Who is told.
        time_ns: The purgatory's clock.

    Raises:
        TypeError: ``observer`` has no method ``notify``.
    """

    __slots__ = ("_observer", "_pending", "_submitted", "_time_ns")

    def __init__(self, observer: Observer, time_ns: Callable[[], int]) -> None:
        if not callable(getattr(observer, "notify", None)):
            raise TypeError(f"observer must have a method notify(event), got {observer!r}")
        self._observer = observer
        self._time_ns = time_ns
        self._submitted = 0
        # By identity: an operation that compares equal to another is still another.
        self._pending: dict[int, OperationSubmitted] = {}

    def submitted(self, operation: DelayedOperation[Any], keys: tuple[Hashable, ...]) -> None:
        """An operation was watched, or completed in its first check."""
        timeout = operation.timeout
        self._submitted += 1
        event = OperationSubmitted(
            operation=operation,
            operation_id=self._submitted,
            keys=keys,
            timeout_ns=None if timeout is None or timeout == inf else seconds_to_ns(max(timeout, 0)),
            at_ns=self._time_ns(),
        )
        self._pending[id(operation)] = event
        self._tell(event)

    def ended(self, operation: DelayedOperation[Any], outcome: Outcome) -> None:
        """An operation that was submitted has ended."""
        submitted = self._pending.pop(id(operation))
        timeout_ns = submitted.timeout_ns
        self._tell(
            OperationEnded(
                operation=operation,
                operation_id=submitted.operation_id,
                keys=submitted.keys,
                outcome=outcome,
                submitted_ns=submitted.at_ns,
                deadline_ns=None if timeout_ns is None else submitted.at_ns + timeout_ns,
                at_ns=self._time_ns(),
            )
        )

    def signalled(self, key: Hashable, completed: int) -> None:
        """A verb for a key has done its work."""
        self._tell(KeySignalled(key=key, completed=completed, at_ns=self._time_ns()))

    def _tell(self, event: Event) -> None:
        try:
            self._observer.notify(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:  # noqa: BLE001 - an observer must do no harm
            report(f"observer {self._observer!r} raised at {event!r}", exception, self._observer)
