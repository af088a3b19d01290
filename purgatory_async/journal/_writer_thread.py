"""The thread that writes a journal: takes entries from a buffer, in batches, and puts them on the disk.

The loop only appends to the buffer; a deque's append and popleft need no lock. One question of timing is left: the
writer thread sleeps while it has nothing to do, and whatever appends must wake it. The writer states that it will
sleep, looks at the buffer once more, and only then sleeps. The other side appends, and only then looks whether the
writer sleeps. So one of the two sees the other.

When the disk is full, what fits is written; the rest stays in memory, in order, and is tried again. The buffer's bound
counts it.
When a sync fails it is over: the system may have dropped what it could not write, and no later sync would say so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Thread
from typing import Any, Final

from purgatory_async.journal._encoder import Encoder, Entry
from purgatory_async.journal._sealer import Sealer
from purgatory_async.journal._segment_file import JournalError, SegmentFile

__all__ = ["Buffer", "FlushBarrier", "Gap", "Sync", "WriterThread"]

BATCH: Final = 4096  # entries; while they are encoded, the loop gets the interpreter every few milliseconds
GROUP_S: Final = 0.1
LOOK_S: Final = 1.0  # how often to try a full disk again, and to look after what is being sealed
_LOG: Final = logging.getLogger("purgatory_async.journal")


class Sync(StrEnum):
    """When a record is on the disk, and so what `Journal.commit` promises.

    Attributes:
        ALWAYS: `commit` returns when everything noted before is on the disk: it survives a power cut.
        GROUP: Every 100 ms. `commit` returns at once; a crash of the machine costs what was noted in the last 100 ms,
            and so does a ``kill -9``.
        OS: Whenever the system thinks fit. Written every 100 ms, so a ``kill -9`` costs no more than with ``GROUP``;
            a crash of the machine may cost the last half minute.
    """

    ALWAYS = "always"
    GROUP = "group"
    OS = "os"


@dataclass(frozen=True, slots=True)
class Gap:
    """A place among the entries at which some were dropped."""

    count: int


class FlushBarrier:
    """A place among the entries: whoever put it there is told when everything before it is on the disk."""

    __slots__ = ("_done", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for it."""
        return self._done.__await__()

    def reached(self, trouble: JournalError | None) -> None:
        """Tell its owner, from another thread; whoever has gone is not told."""
        try:
            self._loop.call_soon_threadsafe(self._tell, trouble)
        except RuntimeError:
            return  # the loop has closed

    def _tell(self, trouble: JournalError | None) -> None:
        if self._done.done():
            return
        if trouble is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(trouble)


Buffer = deque[Entry | Gap | FlushBarrier]


class WriterThread(Thread):
    """Writes until it is told to stop.

    Args:
        buffer: Where entries come from, and marks between them.
        encoder: Makes lines of them.
        open_book: Opens the next segment.
        sync: When to wait for the disk.
        segment_bytes: From which size on a segment is full.
        sealer: Gets each full segment; from the start of the thread to its end, nobody else asks it.
        on_trouble: Told in a sentence what goes wrong, and when it is over.
    """

    def __init__(
        self,
        buffer: Buffer,
        encoder: Encoder,
        open_book: Callable[[], SegmentFile],
        *,
        sync: Sync,
        segment_bytes: int,
        sealer: Sealer,
        on_trouble: Callable[[str], None],
    ) -> None:
        super().__init__(name="purgatory-journal", daemon=True)
        self.idle = False
        self.released = 0  # records that wait no more: written, or dropped here
        self.dropped = 0
        self._held = 0  # records that are encoded and not yet written
        self.trouble: JournalError | None = None
        self.failed = False
        self._buffer = buffer
        self._encoder = encoder
        self._open_book = open_book
        self._segment_file = open_book()
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._full_at = segment_bytes
        self._unsafe = False  # something is written and not yet synced
        self._sealer = sealer
        self._on_trouble = on_trouble
        self._wake = Event()
        self._hurry = False  # somebody waits: no window
        self._stopping = False
        self._lines = bytearray()
        self._marks: list[FlushBarrier] = []

    # From the loop's thread.

    @property
    def settled(self) -> bool:
        """Whether everything is on the disk, and nothing waits for it."""
        return self.idle and not self._buffer and not self._unsafe

    def wake(self) -> None:
        """Say that there is something in the buffer; needed only while it is idle."""
        self.idle = False
        self._wake.set()

    def hurry(self) -> None:
        """Let it write now, whatever the window."""
        self._hurry = True
        self.wake()

    def stop(self) -> None:
        """Write what there is, and wait until the thread has ended."""
        self._stopping = True
        self.hurry()
        self.join()

    # The thread.

    def run(self) -> None:
        """Write until stopped; nothing that happens here ends the thread before."""
        while True:
            self._sealer.look_after()
            self._await_work()
            stopping = self._stopping  # read before the buffer: what was noted before the stop is in it
            self._take()
            self._write()
            if stopping and not self._buffer:
                break
        self._finish()

    def _await_work(self) -> None:
        if self._stopping:
            return
        if self.trouble and not self.failed:
            self._wake.wait(LOOK_S)
        elif not self._buffer:
            self.idle = True
            if not self._buffer and not self._stopping:
                self._wake.wait(LOOK_S if self._sealer.busy else None)
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
                self._marks.append(entry)
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
        except BaseException as error:  # noqa: BLE001 - a key's repr is the user's code; one record is lost, and counted
            del self._lines[length:]
            self._drop(1)
            self._tell(f"a record was dropped, it cannot be written: {error!r}")
        else:
            self._held += 1

    def _drop(self, records: int) -> None:
        self.dropped += records
        self.released += records

    def _write(self) -> None:
        if not self.failed and self._lines:
            before = self._segment_file.length
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
        marks, self._marks = self._marks, []
        for mark in marks:
            mark.reached(self.trouble)

    def _release(self, length: int) -> None:
        """Let go of the lines that are in the file now, which has grown by so many bytes."""
        del self._lines[:length]
        left = self._lines.count(b"\n")
        self.released += self._held - left
        self._held = left
        self._unsafe |= length > 0

    def _make_safe(self) -> None:
        """Sync if somebody was promised that; go on in the next segment if this one is full."""
        full = self._segment_file.length >= self._full_at and not self.trouble
        if self._unsafe and (full or self._stopping or self._marks or self._sync is not Sync.OS):
            try:
                self._segment_file.sync()
            except OSError as error:
                self.failed = True
                self._suffer(
                    f"the journal cannot sync {self._segment_file.segment.path}: {error.strerror}; what was not "
                    "synced may be lost, and nothing more is recorded until a new start"
                )
                return
            self._unsafe = False
        if full:
            self._turn_over()

    def _turn_over(self) -> None:
        try:
            fresh = self._open_book()
        except OSError as error:
            self._full_at = self._segment_file.length + self._segment_bytes
            self._tell(f"the journal goes on in a full segment, it cannot make another: {error.strerror}")
            return
        full, self._segment_file = self._segment_file, fresh
        self._full_at = self._segment_bytes
        full.close()
        self._sealer.add(full.segment)

    def _suffer(self, sentence: str) -> None:
        if self.trouble is None or self.failed:
            self._tell(sentence)
        self.trouble = JournalError(sentence)

    def _recover(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._tell("the journal writes again; nothing that it held was lost")

    def _tell(self, sentence: str) -> None:
        try:
            self._on_trouble(sentence)
        except BaseException as error:  # noqa: BLE001 - whoever is told must not end the thread
            _LOG.warning("%r raised %r when told: %s", self._on_trouble, error, sentence)

    def _finish(self) -> None:
        self._drop(self._held)
        if self._held:
            self._tell(f"{self._held} records were dropped: the journal was closed while it could not write")
        self._segment_file.close()
