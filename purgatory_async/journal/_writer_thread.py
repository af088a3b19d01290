"""The thread that writes a journal: takes entries from a buffer in batches and writes them to the disk.

The loop only appends to the buffer; a deque's append and popleft need no lock. The thread sleeps while the buffer is
empty. It sets `idle`, checks the buffer again, and only then sleeps; the loop appends, and only then reads `idle`. So
one of the two sees the other, and no wakeup is lost.

On a full disk, what fits is written. The rest stays in memory, in order, counts against the buffer's bound, and is
retried. A failed sync is final: the kernel may have dropped the data, and no later sync would report it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Thread
from typing import Any, Final

from purgatory_async.clock import monotonic
from purgatory_async.journal._alarms import Alarms
from purgatory_async.journal._encoder import Encoder, Entry
from purgatory_async.journal.retention import Retention
from purgatory_async.journal.segments import JournalError, Sealer, SegmentFile

BATCH: Final = 4096  # entries; encoding them shares the interpreter with the loop every few milliseconds
GROUP_S: Final = 0.1
LOOK_S: Final = 1.0  # how often to retry a full disk and to check a process
SURVEY_S: Final = 60.0  # how often to measure the journal and its disk, and to remove old segments


class Sync(StrEnum):
    """When a record is on the disk, and so what `Journal.commit` promises.

    Attributes:
        ALWAYS: `commit` returns once every earlier event is on the disk and survives a power cut.
        GROUP: Every 100 ms. `commit` returns at once; a crash of the machine or a ``kill -9`` loses the last 100 ms.
        OS: When the kernel decides. Written every 100 ms, so a ``kill -9`` loses no more than with ``GROUP``; a crash
            of the machine may lose the last half minute.
    """

    ALWAYS = "always"
    GROUP = "group"
    OS = "os"


@dataclass(frozen=True, slots=True)
class Gap:
    """Marks where entries of the buffer were dropped."""

    count: int


class FlushBarrier:
    """Awaitable mark in the buffer, done when every entry before it is on the disk."""

    __slots__ = ("_done", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for it."""
        return self._done.__await__()

    def reached(self, trouble: JournalError | None) -> None:
        """Wake the waiter from another thread, with an error if the disk has one; a cancelled waiter is skipped."""
        try:
            self._loop.call_soon_threadsafe(self._tell, trouble)
        except RuntimeError:
            return  # the loop is closed

    def _tell(self, trouble: JournalError | None) -> None:
        if self._done.done():
            return
        if trouble is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(trouble)


Buffer = deque[Entry | Gap | FlushBarrier]


class WriterThread(Thread):
    """Writes until `stop`.

    Args:
        buffer: The source of entries, gaps and barriers.
        encoder: Encodes entries as lines.
        open_segment: Opens the next segment.
        sync: When to wait for the disk.
        segment_bytes: Size at which a segment is full.
        sealer: Gets each full segment; only this thread uses it while it runs.
        retention: Removes old segments; only this thread uses it while it runs.
        alarms: Warn before the disk fails.
        buffered: Returns how many records wait for the disk.
        on_trouble: Called with one sentence when the disk fails and when it recovers; must not raise.
    """

    def __init__(
        self,
        buffer: Buffer,
        encoder: Encoder,
        open_segment: Callable[[], SegmentFile],
        *,
        sync: Sync,
        segment_bytes: int,
        sealer: Sealer,
        retention: Retention,
        alarms: Alarms,
        buffered: Callable[[], int],
        on_trouble: Callable[[str], None],
    ) -> None:
        super().__init__(name="purgatory-journal", daemon=True)
        self.idle = False
        self.released = 0  # records that have left memory: written, or dropped here
        self.dropped = 0
        self._held = 0  # records encoded and not yet written
        self.trouble: JournalError | None = None
        self.failed = False
        self._buffer = buffer
        self._encoder = encoder
        self._open_segment = open_segment
        self._segment_file = open_segment()
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._full_at = segment_bytes
        self._unsafe = False  # lines are written and not yet synced
        self._sealer = sealer
        self._retention = retention
        self._alarms = alarms
        self._survey_at = 0.0
        self._buffered = buffered
        self._tell = on_trouble
        self._wake = Event()
        self._hurry = False  # a caller waits: skip the 100 ms window
        self._stopping = False
        self._lines = bytearray()
        self._barriers: list[FlushBarrier] = []

    # From the loop's thread.

    @property
    def settled(self) -> bool:
        """Whether every entry is on the disk."""
        return self.idle and not self._buffer and not self._unsafe

    def wake(self) -> None:
        """Wake the thread; needed only while it is idle."""
        self.idle = False
        self._wake.set()

    def hurry(self) -> None:
        """Write now, without waiting for the window."""
        self._hurry = True
        self.wake()

    def stop(self) -> None:
        """Write the rest of the buffer, and wait for the thread to end."""
        self._stopping = True
        self.hurry()
        self.join()

    # The thread.

    def run(self) -> None:
        """Write until stopped; no error ends the thread earlier."""
        while True:
            self._look_after()
            self._await_work()
            stopping = self._stopping  # read before the buffer, which then has every entry before the stop
            self._take()
            self._write()
            if stopping and not self._buffer:
                break
        self._finish()

    def _look_after(self) -> None:
        now = monotonic()
        if now >= self._survey_at or self._retention.busy:
            self._survey_at = now + SURVEY_S
            self._retention.look(self._segment_file.segment, self._sealer.present)
            self._alarms.look()
        self._sealer.look_after()  # after that, for what was removed need not be sealed

    def _await_work(self) -> None:
        if self._stopping:
            return
        if self.trouble and not self.failed:
            self._wake.wait(LOOK_S)
        elif not self._buffer:
            self.idle = True
            if not self._buffer and not self._stopping:
                self._wake.wait(LOOK_S if self._sealer.busy or self._retention.busy else SURVEY_S)
            self.idle = False
        self._wake.clear()
        if self._sync is not Sync.ALWAYS and not self._hurry and len(self._buffer) < BATCH:
            self._wake.wait(GROUP_S)
        self._hurry = False

    def _take(self) -> None:
        for _ in range(BATCH):
            try:
                entry = self._buffer.popleft()
            except IndexError:
                return
            if isinstance(entry, FlushBarrier):
                self._barriers.append(entry)
            elif isinstance(entry, Gap):
                self._encoder.skip(entry.count)
                self._tell(f"{entry.count} records were dropped: the journal's buffer was full")
            else:
                self._encode(entry)

    def _encode(self, entry: Entry) -> None:
        if self.failed:
            self._drop(1)
            return
        length = len(self._lines)
        try:
            self._encoder.encode(entry, self._lines)
        except BaseException as error:  # noqa: BLE001 - a key's repr is user code; drop one record and count it
            del self._lines[length:]
            self._drop(1)
            self._tell(f"a record was dropped, it cannot be written: {error!r}")
        else:
            self._held += 1

    def _drop(self, records: int) -> None:
        self.dropped += records
        self.released += records

    def _write(self) -> None:
        if self._lines and self._segment_file.length and self._retention.overdue:
            self._make_safe(ends=True)
        if not self.failed and self._lines:
            before = self._segment_file.length
            if not before:
                self._retention.begin()
            try:
                self._segment_file.append(self._lines)
            except OSError as error:
                self._release(self._segment_file.length - before)
                self._suffer(
                    f"the journal cannot write to {self._segment_file.segment.path}: {error.strerror}"
                )
            else:
                self._release(len(self._lines))
                self._recover()
        if not self.failed:
            self._make_safe()
        self._alarms.look()
        self._alarms.ease(self._buffered())
        barriers, self._barriers = self._barriers, []
        for barrier in barriers:
            barrier.reached(self.trouble)

    def _release(self, length: int) -> None:
        """Forget the written lines, the first ``length`` bytes."""
        del self._lines[:length]
        left = self._lines.count(b"\n")
        self.released += self._held - left
        self._held = left
        self._unsafe |= length > 0

    def _make_safe(self, *, ends: bool = False) -> None:
        """Sync if the policy or a barrier requires it; turn to the next segment if this one is full or ends."""
        full = (ends or self._segment_file.length >= self._full_at) and not self.trouble
        if self._unsafe and (full or self._stopping or self._barriers or self._sync is not Sync.OS):
            try:
                self._segment_file.sync()
            except OSError as error:
                self.failed = True
                self._suffer(
                    f"the journal cannot sync {self._segment_file.segment.path}: {error.strerror}; unsynced records "
                    "may be lost, and nothing more is recorded until a restart"
                )
                return
            self._unsafe = False
        if full:
            self._turn_over()

    def _turn_over(self) -> None:
        try:
            fresh = self._open_segment()
        except OSError as error:
            self._full_at = self._segment_file.length + self._segment_bytes
            self._retention.begin()
            self._tell(f"the journal cannot create a new segment and keeps the full one: {error.strerror}")
            return
        full, self._segment_file = self._segment_file, fresh
        self._full_at = self._segment_bytes
        full.close()
        self._retention.end(full.segment)
        self._sealer.add(full.segment)
        self._survey_at = 0.0

    def _suffer(self, sentence: str) -> None:
        if self.trouble is None or self.failed:
            self._tell(self._alarms.explained(sentence, self._buffered()))
        self.trouble = JournalError(sentence)

    def _recover(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._tell("the journal writes again; no buffered record was lost")

    def _finish(self) -> None:
        self._drop(self._held)
        if self._held:
            self._tell(f"{self._held} records were dropped: the journal was closed while it could not write")
        self._segment_file.close()
        self._retention.close()
