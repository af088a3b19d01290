"""The operations of a fold as the records of a journal.

They are the records that ``serve --journal`` writes, on log time: a record has the time of the fold, so an operation
expires in the millisecond of its deadline, however late a tick came. ``op_id`` is the position of the submission.
"""

from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.events import (
    Event,
    KeySignalled,
    OperationEnded,
    OperationRescheduled,
    OperationSubmitted,
)
from purgatory_async.journal._encoder import Encoder, Entry, Sample

SAMPLE_NS: Final = 1_000_000_000
NS_PER_US: Final = 1_000


class Run(Struct):
    """A run of the journal, and how far it is.

    Attributes:
        run_id, node: As in its records.
        origin_ns: The log time that is 0 in ``mono_ns``; None before the first record.
        seq: The number of the last record.
        sample_due_ns: From which log time on a record is followed by the sizes.
    """

    run_id: str
    node: str
    origin_ns: int | None = None
    seq: int = 0
    sample_due_ns: int = 0


class Recorder:
    """Observes the operations of one fold, from when `start` is called.

    Args:
        run: Continued, and kept up to date by `take`.
        written: The last record that is in the files already; those up to it are made again, and dropped.
    """

    def __init__(self, run: Run, written: int = 0) -> None:
        self._run: Final = run
        self._written: Final = written
        self._noted: list[Entry] = []
        self._fold: Fold | None = None
        self._start = 0
        self._encoder: Encoder | None = None

    def make(self, at_us: int) -> Fold:
        """Make an empty fold that this observes."""
        return Fold(at_us, observer=self, digests=False)

    def start(self, fold: Fold) -> None:
        """Record what the fold does from now on."""
        self._fold = fold
        self._start = fold.position

    def notify(self, event: Event) -> None:
        """Note an event. O(1)."""
        fold = self._fold
        if fold is None:
            return  # it is being restored
        if isinstance(event, KeySignalled):
            newest = fold.signals.newest
            self._noted.append((event, 1 if newest is None else newest.amount))
        else:
            self._noted.append((self._on_log_time(event), fold.shared.timer.queue.now_tick))
        if event.at_ns >= self._run.sample_due_ns:
            self._run.sample_due_ns = event.at_ns + SAMPLE_NS
            self._noted.append(_sizes(fold, event.at_ns))

    def take(self) -> bytearray:
        """Return the lines of what was noted since the last call. O(events)."""
        noted, self._noted = self._noted, []
        lines = bytearray()
        for entry in noted:
            if self._encoder is None:
                self._encoder = self._begin(entry.at_ns if isinstance(entry, Sample) else entry[0].at_ns)
            length = len(lines)
            self._encoder.encode(entry, lines)
            self._run.seq = self._encoder.seq
            if self._run.seq <= self._written:
                del lines[length:]
        return lines

    def _begin(self, at_ns: int) -> Encoder:
        assert self._fold is not None, "take() begins only after start()"
        timer, run = self._fold.shared.timer, self._run
        tick_ns = round(timer.tick * 1e9)
        if run.origin_ns is None:
            run.origin_ns = at_ns - at_ns % tick_ns
        # Log time is UTC, so it needs no offset to the wall clock.
        encoder = Encoder(
            run.run_id, run.node, origin_ns=run.origin_ns, wall_ns=0, tick_ns=tick_ns, queue=timer.queue
        )
        encoder.seq = run.seq
        return encoder

    def _on_log_time(self, event: OperationSubmitted | OperationRescheduled | OperationEnded) -> Event:
        """Give an event the times of its entry: the timer's are rounded, and begin anew in a restored fold."""
        operation: Any = event.operation
        assert isinstance(operation, Operation), f"the fold has only its own operations, got {operation!r}"
        submitted_ns = operation.submitted_us * NS_PER_US
        deadline_ns = None if operation.deadline_us is None else operation.deadline_us * NS_PER_US
        if not isinstance(event, OperationEnded):
            since_ns = submitted_ns if isinstance(event, OperationSubmitted) else event.at_ns
            timeout_ns = None if deadline_ns is None else deadline_ns - since_ns
            return replace(event, operation_id=operation.position, timeout_ns=timeout_ns)
        # What was restored has been checked before; how often is not known.
        checks: Any = event.checks if operation.position > self._start else None
        return replace(
            event,
            operation_id=operation.position,
            submitted_ns=submitted_ns,
            deadline_ns=deadline_ns,
            checks=checks,
        )


def _sizes(fold: Fold, at_ns: int) -> Sample:
    operations = fold.operations.purgatory
    buckets = getattr(fold.shared.timer.queue, "bucket_count", 0)
    return Sample(at_ns, operations.pending, operations.watched, buckets)
