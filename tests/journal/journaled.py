"""A purgatory on a manual clock, with its journal, and the journal's records once it is closed."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import ClassVar, Self

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.journal import Journal, read_journal
from purgatory_async.journal.reader import read_segment
from purgatory_async.journal.schema import Record
from purgatory_async.journal.segments import SegmentFile, list_segments
from purgatory_async.testing import ManualClock
from purgatory_async.timing import TimerQueue

PATIENCE_S = 60


class JournaledPurgatory:
    """Everything that a test of the journal needs, on a `ManualClock`.

    Args:
        directory: The journal's.
        start: The clock's present, in seconds.
        tick: The timer's.
        queue: The timer's.
        **settings: Of the journal.
    """

    opened: ClassVar[list["JournaledPurgatory"]] = []

    def __init__(
        self,
        directory: Path,
        *,
        start: float = 1000.0,
        tick: float = 0.001,
        queue: TimerQueue | None = None,
        **settings: object,
    ) -> None:
        self.directory = directory
        self.messages: list[str] = []
        self.clock = ManualClock(start)
        self.timer = Timer(clock=self.clock, tick=tick, queue=queue)
        settings.setdefault("on_trouble", self.messages.append)
        self.journal = Journal(directory, timer=self.timer, **settings)
        self.purgatory = Purgatory(timer=self.timer, observer=self.journal)
        self.opened.append(self)

    def watch(self, *keys: object, timeout: float | None = None) -> DelayedOperation[object]:
        operation = DelayedOperation[object](timeout)
        self.purgatory.try_complete_else_watch(operation, keys)
        return operation

    def signal(self, *keys: object) -> None:
        for key in keys:
            self.purgatory.complete_for_key(key)

    def close(self) -> list[Record]:
        """Close the journal, and read what it has."""
        self.journal.close()
        return list(read_journal(self.directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()


class Disk:
    """What becomes of writes and syncs from now on; put it in place of the journal's books with `seize`."""

    def __init__(self) -> None:
        self.on_write: Callable[[], object] = bool
        self.on_sync: Callable[[], object] = bool
        self.syncs = 0
        self.refused = Event()  # set when either raises

    def touch(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError:
            self.refused.set()
            raise

    def seize(self, monkeypatch) -> "Disk":
        disk = self

        class SeizedSegmentFile(SegmentFile):
            def append(self, lines):
                disk.touch(disk.on_write)
                super().append(lines)

            def sync(self):
                disk.syncs += 1
                disk.touch(disk.on_sync)
                super().sync()

        monkeypatch.setattr("purgatory_async.journal._run.SegmentFile", SeizedSegmentFile)
        return self


def fails_with(number: int) -> Callable[[], object]:
    """A disk that answers every call so."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def until(condition: Callable[[], object]) -> None:
    """Wait for another thread, or another process."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


async def until_async(condition: Callable[[], object]) -> None:
    """The same while the loop goes on."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.002)


def open_files() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def missing(records: Iterable[Record]) -> list[int]:
    """The numbers that are not there, up to the highest that is."""
    numbers = {record.seq for record in records}
    return sorted({*range(1, max(numbers, default=0) + 1)} - numbers)


def live_bytes(directory: Path) -> bytes:
    """The content of the segments of JSON lines."""
    return b"".join(segment.path.read_bytes() for segment in list_segments(directory) if segment.live)


def everything(directory: Path) -> list[object]:
    """Records and damage, in order."""
    return [found for segment in list_segments(directory) for found in read_segment(segment)]
