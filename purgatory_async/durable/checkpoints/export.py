"""A log as a journal, in the files that the pipeline reads.

The export is one more replica. Beside its segments it keeps the file ``.export``: the state that it has folded, and how
far it has written. After a kill the next export continues from there: it makes the records after that state again, and
writes those that the segments lack. So each record is written once.
"""

import asyncio
import datetime as dt
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from purgatory_async.cluster import Entry, Head, Log, LogGap
from purgatory_async.cluster.connection import following
from purgatory_async.durable.checkpoints.exported import Exported
from purgatory_async.durable.checkpoints.loading import apply, restored
from purgatory_async.durable.checkpoints.recorder import Recorder, Run
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.loading import check_reach
from purgatory_async.journal import JournalError
from purgatory_async.journal.lines import Damage
from purgatory_async.journal.reader import read_segment
from purgatory_async.journal.segments import DirectoryLock, Sealer, Segment, SegmentFile, list_segments

SEGMENT_BYTES: Final = 64 << 20
SAVE_ENTRIES: Final = 50_000
"""How many entries a killed export may have to fold again; a log keeps twice as many before its checkpoint."""
_NODE: Final = re.compile(r"[^A-Za-z0-9_-]")


async def export(
    log: Log, head: Head, directory: Path, *, node: str, follow: bool, say: Callable[[str], None]
) -> "Export":
    """Write the records of a log to a journal, from where the last export to this directory ended.

    The first export begins at the log's newest checkpoint, so operations from before it have an end only.

    Args:
        log: An open log.
        head: Its state when it was opened.
        directory: As for `Export`.
        node: As for `Export`.
        follow: Whether to go on with what is appended, until the task is cancelled; else up to the present end.
        say: As for `Export`.

    Returns:
        The closed export, with its figures.

    Raises:
        JournalError: The directory cannot be used, or what the last export left there is damaged.
        LogError: As `folded`. What was written stays, and the next export continues it.
    """
    with Export(directory, node, say) as journal:
        await journal.begin(log, head.epoch)
        end = await log.end()
        try:
            while follow or journal.position < end:
                try:
                    async with following(log, journal.position) as reads:
                        async for entries in reads:
                            journal.take(entries)
                            if not follow and journal.position >= end:
                                break
                except LogGap as gap:
                    await journal.restart(log, gap)
                    end = await log.end()
        except asyncio.CancelledError:
            if not follow:
                raise
        journal.save()
    return journal


class Export:
    """A journal of a log in a directory; a context manager that locks it.

    Args:
        directory: Created if missing, for its owner only. Segments of other runs stay as they are.
        node: The log's name, for the names of the segments.
        say: Called with a sentence when records are missing, or a segment was not turned into Parquet.

    Attributes:
        records: How many were written.

    Raises:
        JournalError: Another process writes there, or the directory cannot be used.
    """

    def __init__(self, directory: Path, node: str, say: Callable[[str], None]) -> None:
        self.records = 0
        self._directory: Final = directory
        self._node: Final = _NODE.sub("-", node) or "log"
        self._say: Final = say
        self._saved = 0
        self._fold: Fold | None = None
        self._file: SegmentFile | None = None

    def __enter__(self) -> Self:
        self._lock = DirectoryLock(self._directory)
        self._sealer = Sealer(self._directory, self._say)
        for segment in list_segments(self._directory):
            if segment.live:
                self._sealer.add(segment)
        self._sealer.look_after()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._fold is not None:
            self._fold.close()
        self._sealer.finish()
        self._lock.release()

    @property
    def position(self) -> int:
        """The last position whose records are written."""
        return 0 if self._fold is None else self._fold.position

    async def begin(self, log: Log, epoch: str) -> None:
        """Continue where the last export to this directory ended; else begin at the log's newest checkpoint.

        Raises:
            JournalError: What the last one left is damaged.
            LogError: As `restored`.
        """
        found = Exported.read(self._directory)
        if found is not None and found.epoch == epoch:
            self._epoch, self._run = epoch, found.run
            recorder = Recorder(found.run, self._last_written())
            fold = found.fold(recorder.make)
            if await _continues(log, fold):
                self._observe(recorder, fold)
                return
            fold.close()
        await self._begin_run(log, epoch)
        if found is not None:
            self._say(
                f"the journal continues in a new run at position {self.position}: the log is another one than that of "
                f"run {found.run.run_id}, or has lost entries after position {found.position}"
            )

    async def restart(self, log: Log, gap: LogGap) -> None:
        """Begin a new run: the log no longer has what comes after the position.

        Raises:
            LogDamaged: The log does not reach back to its own checkpoint.
        """
        before = self.position
        await self._begin_run(log, gap.epoch)
        check_reach(self.position, gap.oldest)
        self._say(
            f"the journal continues in a new run at position {self.position}: the log no longer has the entries after "
            f"position {before}"
        )

    def take(self, entries: Sequence[Entry]) -> None:
        """Apply the next entries and write their records to the disk.

        Raises:
            LogDamaged, LogRefused: As `apply`.
            JournalError: The disk is full or broken.
        """
        fold = self._begun()
        try:
            for entry in entries:
                apply(fold, entry)
        finally:  # also what comes before a damaged entry
            lines = self._recorder.take()
            if lines:
                self._write(lines)
        if self.position - self._saved >= SAVE_ENTRIES:
            self.save()
        self._sealer.look_after()

    def save(self) -> None:
        """Save the state, so that the next export continues here. O(n). Raises `JournalError`."""
        Exported.write(self._directory, self._epoch, self._run, self._begun())
        self._saved = self.position

    def _write(self, lines: bytearray) -> None:
        if self._file is None:
            self._file = self._next_file()
        try:
            self._file.append(lines)
            self._file.sync()
        except OSError as error:
            raise JournalError(f"cannot write to {self._file.segment.path}: {error.strerror}") from None
        self.records += lines.count(b"\n")
        if self._file.length >= SEGMENT_BYTES:
            self._turn_over()

    def _turn_over(self) -> None:
        if self._file is not None:
            self._file.close()
            self._sealer.add(self._file.segment)
            self._file = None

    async def _begin_run(self, log: Log, epoch: str) -> None:
        run = Run(f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", self._node)
        recorder = Recorder(run)
        fold, found = await restored(log, recorder.make)
        self._turn_over()
        self._epoch, self._run = found or epoch, run
        self._observe(recorder, fold)
        self.save()  # before the first record, so that no two runs have it

    def _observe(self, recorder: Recorder, fold: Fold) -> None:
        if self._fold is not None:
            self._fold.close()
        self._recorder, self._fold = recorder, fold
        self._saved = fold.position
        recorder.start(fold)

    def _begun(self) -> Fold:
        assert self._fold is not None, "begin() comes first"
        return self._fold

    def _own(self) -> list[Segment]:
        """The segments of this run."""
        own = (self._run.run_id, self._run.node)
        return [each for each in list_segments(self._directory) if (each.run_id, each.node) == own]

    def _last_written(self) -> int:
        """The number of the run's last whole record; 0 if there is none."""
        for segment in reversed(self._own()):
            numbers = [record.seq for record in read_segment(segment) if not isinstance(record, Damage)]
            if numbers:
                return max(numbers)
        return 0

    def _next_file(self) -> SegmentFile:
        number = max((segment.number for segment in self._own()), default=0) + 1
        try:
            return SegmentFile(Segment.named(self._directory, self._run.run_id, self._run.node, number))
        except OSError as error:
            raise JournalError(f"cannot write to {self._directory}: {error.strerror}") from None


async def _continues(log: Log, fold: Fold) -> bool:
    """Whether a log has the last entry of a state, by its log time: a restored backup may have another one there."""
    if fold.position == 0:
        return True
    if await log.end() < fold.position:
        return False
    try:
        async with following(log, fold.position - 1) as reads:
            return (await anext(reads))[0].at_us == fold.at_us
    except LogGap:
        return True  # it is trimmed, and maybe the next one too, which shows when that is read
