"""The service's delayed operations: a need counts the signals on their keys.

A signal is noted before its key is checked, as Kafka appends before it checks; `try_complete` counts the newest one. An
operation of the fold also has an id, a position and a status. Equal one-shot waits share one without a deadline.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Final, cast

from msgspec import UNSET

from purgatory_async import DelayedOperation, Outcome
from purgatory_async.durable.documents import Attached, OperationView, SignalView, State
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.needs import Need, Progress
from purgatory_async.durable.fold.signals import Ledger, Newest, Signal

STATES: Final[dict[Outcome | None, State]] = {
    None: "pending",
    **{outcome: cast("State", str(outcome)) for outcome in Outcome},
}
"""The states by outcome; they share their words."""


class SignalledOperation(DelayedOperation[Attached]):
    """Waits until the signals on its keys fulfil its need.

    Args:
        newest: Has the newest signal.
        keys: Its distinct watch keys.
        need: Counts the signals; never shared.
        timeout: Seconds until it expires; None for no deadline.
        submitted: When, on the clock of its owner: seconds of the timer, or microseconds of log time.
    """

    __slots__ = ("_heard", "_ledger", "_newest", "need", "submitted", "watch_keys")

    def __init__(
        self,
        newest: Newest,
        keys: tuple[str, ...],
        need: Need,
        timeout: float | None,
        *,
        submitted: float,
    ) -> None:
        super().__init__(timeout)
        self.submitted = submitted
        self._newest = newest
        self._heard = newest.index  # earlier signals do not count
        self._ledger: Ledger | None = None
        self.need = need
        self.watch_keys = keys

    def try_complete(self) -> bool:
        """Count the newest signal, once; it is on one of the keys, as only that key is checked. O(1)."""
        signal = self._newest.newest
        if signal is None or signal.view.index <= self._heard:
            return False
        return self.note(signal) and self.force_complete(UNSET)

    def note(self, signal: Signal) -> bool:
        """Count a signal on one of the keys, after all that were counted; return whether the need holds. O(1)."""
        self._heard = signal.view.index
        # Most pending operations have no signal; an empty ledger would add a third to their size.
        if self._ledger is None:
            self._ledger = self._new_ledger()
        self._ledger.note(signal)
        return self.need.note(signal)

    def take(self, batch: Batch) -> Signal | None:
        """Do as `note` for each signal of a batch on the keys, until the need holds; return the one with which it does.

        None if it does not. O(keys + signals that it shows).
        """
        part = batch.on(self.watch_keys)
        end = self.need.take(part)
        self._heard = batch.index
        self._show(part.latest(end))
        return end

    def recall(self, signals: Sequence[Signal], progress: Progress) -> None:
        """Take over the signals and the progress of the same operation, from before it was saved."""
        if signals:
            self._show(signals)
        self.need.resume(progress)

    def _show(self, signals: Sequence[Signal]) -> None:
        if self._ledger is None:
            self._ledger = self._new_ledger()
        for signal in signals:
            self._ledger.note(signal)

    def _new_ledger(self) -> Ledger:
        return Ledger()

    @property
    def needed(self) -> int:
        """The sum of amounts that the journal records."""
        return self.need.needed

    @property
    def untouched(self) -> bool:
        """Whether no signal was counted yet, so that an equal one that begins now will end with this one."""
        return self._ledger is None

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
        *,
        owner: str | None,
    ) -> OperationView:
        """Return its status; ``elapsed`` is in seconds."""
        outcome, result, ledger = self.outcome, self.result, self._ledger
        return OperationView(
            id=operation_id,
            keys=self.watch_keys,
            need=self.need.wire,
            state=STATES[outcome],
            submitted_at=submitted_at,
            deadline=deadline,
            elapsed=elapsed,
            signals=() if ledger is None else ledger.views(),
            result=UNSET if result is None else result,
            data=data,
            waiting_for=self.need.waiting_for() if outcome is None else UNSET,
            owner=UNSET if owner is None else owner,
        )
