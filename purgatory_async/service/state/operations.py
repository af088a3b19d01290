"""The service's delayed operations: a need counts the signals on their keys.

The board notes a signal before its key is checked, as Kafka appends before it checks; `try_complete` counts the
board's newest signal. A one-shot wait is a `SignalledOperation` whose timeout is the wait; an `Operation` also has an
id, a place in the listing and a status.
"""

import datetime as dt
from typing import cast, final

from msgspec import UNSET

from purgatory_async import DelayedOperation
from purgatory_async.service.messages import Attached, OperationView, SignalView, State
from purgatory_async.service.state.needs import Need, Progress
from purgatory_async.service.state.signals import Ledger, Newest


class SignalledOperation(DelayedOperation[Attached]):
    """Waits until the signals on its keys fulfil its need.

    Args:
        board: Has the signals.
        keys: Its distinct watch keys.
        need: Counts the signals; never shared.
        timeout: Seconds until it expires; None for no deadline.
        sequence: Its place in the order of submission, one-shot waits included.
        submitted: When, on the clock of its owner: seconds of the timer, or microseconds of log time.
    """

    __slots__ = ("_board", "_heard", "_ledger", "need", "sequence", "submitted", "watch_keys")

    def __init__(
        self,
        board: Newest,
        keys: tuple[str, ...],
        need: Need,
        timeout: float | None,
        sequence: int,
        *,
        submitted: float,
    ) -> None:
        super().__init__(timeout)
        self.sequence = sequence
        self.submitted = submitted
        self._board = board
        self._heard = board.index  # earlier signals do not count
        self._ledger: Ledger | None = None
        self.need = need
        self.watch_keys = keys

    def try_complete(self) -> bool:
        """Count the newest signal, once; it is on one of the keys, as only that key is checked. O(1)."""
        signal = self._board.newest
        if signal is None or signal.view.index <= self._heard:
            return False
        self._heard = signal.view.index
        # Most pending operations have no signal; an empty ledger would add a third to their size.
        if self._ledger is None:
            self._ledger = Ledger()
        self._ledger.note(signal.view)
        return self.need.note(signal) and self.force_complete(UNSET)

    def recall(self, views: tuple[SignalView, ...], progress: Progress) -> None:
        """Take over the signals and the progress of the same operation, from before it was saved."""
        self._ledger = Ledger(views) if views else None
        self.need.resume(progress)

    @property
    def needed(self) -> int:
        """The sum of amounts that the journal records."""
        return self.need.needed

    @property
    def signals(self) -> tuple[SignalView, ...]:
        """The latest signals, at most 64, oldest first."""
        return () if self._ledger is None else self._ledger.views()

    def described(
        self,
        operation_id: str,
        data: Attached,
        submitted_at: dt.datetime,
        deadline: dt.datetime | None,
        elapsed: float,
    ) -> OperationView:
        """Return its status; ``elapsed`` is in seconds."""
        pending = self.outcome is None
        return OperationView(
            id=operation_id,
            keys=self.watch_keys,
            need=self.need.wire,
            state=cast("State", self.outcome or "pending"),  # outcomes and states share their words
            submitted_at=submitted_at,
            deadline=deadline,
            elapsed=round(elapsed, 6),
            signals=self.signals,
            result=UNSET if self.result is None else self.result,
            data=data,
            waiting_for=self.need.waiting_for() if pending else UNSET,
        )


@final
class Operation(SignalledOperation):
    """An operation with an id; it stays pending when its client leaves.

    Args, beyond those of `SignalledOperation`:
        operation_id: Its id.
        data: The client's attachment, shown with the status; `UNSET` for none.
        submitted_at: The wall clock's time.

    Attributes:
        recorded: Whether the journal has its submission as safely as the sync policy promises.
    """

    __slots__ = ("data", "ended", "id", "recorded", "submitted_at")

    def __init__(
        self,
        board: Newest,
        keys: tuple[str, ...],
        need: Need,
        timeout: float | None,
        sequence: int,
        *,
        submitted: float,
        operation_id: str,
        data: Attached,
        submitted_at: dt.datetime,
    ) -> None:
        super().__init__(board, keys, need, timeout, sequence, submitted=submitted)
        self.id = operation_id
        self.data = data
        self.submitted_at = submitted_at
        self.ended: float | None = None
        self.recorded = False

    def view(self, now: float) -> OperationView:
        """Return its status at a time of the timer, in seconds."""
        deadline = None if self.timeout is None else self.submitted_at + dt.timedelta(seconds=self.timeout)
        elapsed = (now if self.ended is None else self.ended) - self.submitted
        return self.described(self.id, self.data, self.submitted_at, deadline, elapsed)
