"""The observer that records the events of a purgatory."""

import datetime as dt
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from purgatory_async import Purgatory, Timer
from purgatory_async.errors import check_callback, check_result
from purgatory_async.events import Event, KeySignalled
from purgatory_async.journal._alarms import Usage, WhenFull, guarded
from purgatory_async.journal._encoder import Sample
from purgatory_async.journal._run import Bounds, Run
from purgatory_async.journal._writer_thread import Buffer, FlushBarrier, Gap, Sync
from purgatory_async.journal.segments import JournalError

__all__ = ["Journal", "WhenFull"]

SAMPLE_NS: Final = 1_000_000_000
_LOG: Final = logging.getLogger("purgatory_async.journal")


class Journal:
    """Writes every event of one purgatory to a directory; pass it as the purgatory's observer.

    On the event loop an event costs one append to a buffer. A thread encodes, writes and syncs the events in batches.
    Where pyarrow is installed, a separate process turns full segments into Parquet. An operation's attribute
    ``needed``, if it has one, is recorded: the sum of signals at which it completes.

    One process writes to a directory at a time. The next one seals the segments that an earlier one left.

    Args:
        directory: Created if missing, for its owner only.
        timer: The purgatory's timer; records use its clock and tick.
        sync: When a record is on the disk; see `Sync` for what each promises.
        when_full: What to give up when the buffer is full.
        max_buffered: Upper bound of the records that wait for the disk.
        segment_bytes: Size at which the next segment begins.
        keep: Seconds, or a `datetime.timedelta`, that records are kept; None for ever. A segment is removed once its
            newest record is older, by its ``wall_ns``: of this run and of earlier ones, but not the one that grows. A
            segment spans a tenth of it at most, or a minute.
        keep_bytes: Size beyond which the oldest segments are removed, at least two segments; None for any size.
        node: Distinguishes the journals of several machines; None for this machine's name.
        weigh: Returns how much a signal counts, an integer of at least 0; called on the loop before the hooks run.
            None counts 1 each. If it raises, the record is dropped, and `on_trouble` gets the reason.
        on_trouble: Called with one sentence when the disk fails, when it is nearly full, when a quarter of the buffer
            is, and when each is over. On the loop only for the quarter, else from another thread. None for a
            warning to the logger ``purgatory_async.journal``, which also gets a line for each removal.

    Raises:
        JournalError: Another process writes there, the directory cannot be used, or it is world-writable.
        TypeError, ValueError: An argument is out of its bounds.

    >>> import asyncio, tempfile
    >>> from purgatory_async.journal import read_journal
    >>> async def main(directory):
    ...     timer = Timer()
    ...     with Journal(directory, timer=timer) as journal:
    ...         async with Purgatory("orders", timer=timer, observer=journal) as orders:
    ...             journal.gauge(orders)
    ...             waiting = asyncio.create_task(orders.wait("order:42", timeout=5))
    ...             await asyncio.sleep(0)
    ...             orders.complete_for_key("order:42", "shipped")
    ...             await waiting
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    ...     [type(record).__name__ for record in read_journal(directory)]
    ['Submit', 'Stats', 'Outcome', 'Signal', 'Stats']
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        timer: Timer,
        sync: Sync = Sync.GROUP,
        when_full: WhenFull = WhenFull.DROP,
        max_buffered: int = 200_000,
        segment_bytes: int = 64 * 1024 * 1024,
        keep: float | dt.timedelta | None = None,
        keep_bytes: int | None = None,
        node: str | None = None,
        weigh: Callable[[KeySignalled], int] | None = None,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        for name, function in (("weigh", weigh), ("on_trouble", on_trouble)):
            if function is not None:
                check_callback(name, function)
        bounds = Bounds.of(max_buffered, segment_bytes, keep, keep_bytes)
        self.directory: Final = Path(directory)
        self.sync: Final = Sync(sync)
        self.when_full: Final = WhenFull(when_full)
        self.closed = False
        self._timer = timer
        self._queue = timer.queue
        self._weigh = weigh
        self._limit: Final = bounds.buffered
        self._purgatory: Purgatory | None = None
        self._sample_due_ns = 0
        self._noted = 0  # records given to the writer thread, which alone counts those it has released
        self._gap = 0  # records dropped since the last `Gap` in the buffer
        self._dropped = 0
        self._buffer = Buffer()
        self._process_id = os.getpid()
        self._run: Final = Run(
            self.directory,
            bounds,
            self._buffer,
            noted=lambda: self._noted,
            timer=timer,
            node=node,
            sync=self.sync,
            when_full=self.when_full,
            tell=guarded(_LOG.warning if on_trouble is None else on_trouble),
        )
        self.run_id: Final = self._run.id
        self.node: Final = self._run.node
        self._writer_thread: Final = self._run.writer_thread
        self._due_at = self._run.alarms.due_at

    def __repr__(self) -> str:
        state = "closed" if self.closed else self._writer_thread.trouble or "writing"
        return f"<Journal {str(self.directory)!r} {state} buffered={self.buffered} dropped={self.dropped}>"

    # On the loop.

    def notify(self, event: Event) -> None:
        """Record an event. O(1)."""
        if (
            self._gap or self._noted - self._writer_thread.released >= self._due_at
        ) and not self._make_room():
            return
        extra: int | Exception = self._queue.now_tick
        if isinstance(event, KeySignalled):
            extra = 1 if self._weigh is None else self._weight_of(event)
        self._buffer.append((event, extra))
        self._noted += 1
        if event.at_ns >= self._sample_due_ns:
            self._sample(event.at_ns)
        if self._writer_thread.idle:
            self._writer_thread.wake()

    def _weight_of(self, event: KeySignalled) -> int | Exception:
        assert self._weigh is not None
        try:
            weight = self._weigh(event)
            check_result("weigh", self._weigh, weight)
        except Exception as error:  # noqa: BLE001 - the writer thread reports it when it drops the record
            return error
        return weight

    def _make_room(self) -> bool:
        """Warn once, count a dropped event or append the pending `Gap`; returns whether the buffer has room."""
        if not self.closed and self.buffered >= self._due_at:
            self._run.alarms.rise(self.buffered)
        if self.closed or self.buffered >= self._limit:
            self._gap += 1
            self._dropped += 1
            return False
        if self._gap:
            self._buffer.append(Gap(self._gap))
            self._gap = 0
        return True

    def gauge(self, purgatory: Purgatory) -> None:
        """Also record the sizes of the observed purgatory: once a second while events arrive, and at the end.

        Its timer may be another one than the journal's, if their clocks and ticks are the same.
        """
        self._purgatory = purgatory
        self._queue = purgatory.timer.queue

    def _sample(self, now_ns: int) -> None:
        purgatory = self._purgatory
        if purgatory is None:
            return
        self._sample_due_ns = now_ns + SAMPLE_NS
        buckets = getattr(self._queue, "bucket_count", 0)
        self._buffer.append(Sample(now_ns, purgatory.pending, purgatory.watched, buckets))
        self._noted += 1

    async def commit(self) -> None:
        """Wait until every event so far is as safe as the policy promises: with `Sync.ALWAYS` on the disk.

        With the other policies, and when nothing is left to write, it returns at once. A server calls it before it
        answers a client, in the step that produced the event; then a crash cannot lose what it answered.

        Raises:
            JournalError: The promise cannot be kept: the disk is full or broken, the last events were dropped, or
                the journal is closed or was created before fork().
        """
        if self.sync is Sync.ALWAYS:
            await self.flush()

    async def flush(self) -> None:
        """Wait until every event so far is on the disk, with any policy; raises as `commit` does."""
        if self.closed or os.getpid() != self._process_id:
            state = "closed" if self.closed else f"kept by process {self._process_id}, which forked this one"
            raise JournalError(f"the journal in {self.directory} is {state}")
        if self._writer_thread.trouble is not None:
            # A new error: raising the same one again would grow its traceback each time.
            raise JournalError(str(self._writer_thread.trouble))
        if self._gap:
            raise JournalError(
                f"the last {self._gap} records were dropped: {self.buffered} wait for the disk"
            )
        if self._writer_thread.settled:
            return
        barrier = FlushBarrier()
        self._buffer.append(barrier)
        self._writer_thread.hurry()
        await barrier

    # Reading.

    @property
    def accepting(self) -> bool:
        """Whether to accept new operations: always with `WhenFull.DROP`, else while the disk keeps up."""
        if self.when_full is WhenFull.DROP:
            return True
        return self._writer_thread.trouble is None and not self.closed and self.buffered < self._limit // 2

    @property
    def buffered(self) -> int:
        """How many records wait for the disk."""
        return self._noted - self._writer_thread.released

    @property
    def dropped(self) -> int:
        """How many records were lost to a full buffer, a failed disk or a failed encoding."""
        return self._dropped + self._writer_thread.dropped

    @property
    def trouble(self) -> JournalError | None:
        """The disk's present error; None while writes succeed."""
        return self._writer_thread.trouble

    @property
    def usage(self) -> Usage:
        """What it uses of its buffer and its disk. O(1)."""
        return self._run.usage(buffered=self.buffered, max_buffered=self._limit, dropped=self.dropped)

    # The end.

    def close(self) -> None:
        """Write and sync the buffer, then release the directory. Idempotent.

        Close the purgatory first, so that its last outcomes are recorded. Blocks until everything is on the disk.
        Does nothing in a process forked from the writer's.
        """
        if self.closed:
            return
        self.closed = True
        self._due_at = 0  # look at further events, and refuse them
        if os.getpid() != self._process_id:
            return
        if self._gap:
            self._buffer.append(Gap(self._gap))
            self._gap = 0
        if self._purgatory is not None:
            self._sample(self._timer.time_ns())
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
