"""One run of a journal: the directory that it holds, its segments, and the thread that fills them."""

import datetime as dt
import platform
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, count
from pathlib import Path
from typing import Final

from purgatory_async import Timer
from purgatory_async.clock import MAX_TIMEOUT, as_number
from purgatory_async.errors import as_integer
from purgatory_async.journal._alarms import REASONS, Alarms, Usage, WhenFull
from purgatory_async.journal._encoder import Encoder, WallTime
from purgatory_async.journal._writer_thread import Buffer, Sync, WriterThread
from purgatory_async.journal.ages import Ages
from purgatory_async.journal.retention import Retention
from purgatory_async.journal.segments import (
    RUN_FORMAT,
    DirectoryLock,
    JournalError,
    Sealer,
    Segment,
    SegmentFile,
    list_segments,
)

MIN_BUFFERED: Final = 1_000
MIN_SEGMENT_BYTES: Final = 4_096
_KEEP: Final = "None, a timedelta or a number of seconds"
_NODE: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a journal may use.

    Attributes:
        buffered: Upper bound of the records that wait for the disk.
        segment_bytes: Size at which the next segment begins.
        keep_ns: How long records are kept; None for ever.
        keep_bytes: Size beyond which the oldest segments are removed, at least two segments; None for any size.
    """

    buffered: int
    segment_bytes: int
    keep_ns: int | None
    keep_bytes: int | None

    @classmethod
    def of(
        cls, buffered: int, segment_bytes: int, keep: float | dt.timedelta | None, keep_bytes: int | None
    ) -> "Bounds":
        """Check the arguments of `Journal`; raises TypeError or ValueError."""
        buffered = _at_least("max_buffered", buffered, MIN_BUFFERED)
        segment_bytes = _at_least("segment_bytes", segment_bytes, MIN_SEGMENT_BYTES)
        if keep_bytes is not None:
            keep_bytes = _at_least("keep_bytes", keep_bytes, 2 * segment_bytes)
        return cls(buffered, segment_bytes, None if keep is None else _keep_ns(keep), keep_bytes)


class Run:
    """Writes what comes into a buffer to segments of its own, and seals those that earlier runs left.

    Args:
        directory: Created if missing, for its owner only.
        bounds: What it may use.
        buffer: Where the records come from.
        noted: Returns how many of them there were so far; called in the thread too.
        timer: Its clock and tick are the records'.
        node: Distinguishes the runs of several machines; None for this machine's name.
        sync: When a record is on the disk.
        when_full: What to give up when the buffer is full.
        tell: Called with one sentence when something fails and when it is over; must not raise.

    Attributes:
        id, node: Its name, with which the name of each of its segments begins.
        alarms, writer_thread: The parts that the loop asks.

    Raises:
        JournalError: Another process writes there, the directory cannot be used, or it is world-writable.
    """

    def __init__(
        self,
        directory: Path,
        bounds: Bounds,
        buffer: Buffer,
        *,
        noted: Callable[[], int],
        timer: Timer,
        node: str | None,
        sync: Sync,
        when_full: WhenFull,
        tell: Callable[[str], None],
    ) -> None:
        self.id: Final = f"{dt.datetime.now(dt.UTC):{RUN_FORMAT}}-{secrets.token_hex(3)}"
        self.node: Final = _NODE.sub("-", platform.node() if node is None else node) or "node"
        self._directory: Final = directory
        self._timer: Final = timer
        self._numbers: Final = count(1)
        self._wall: Final = WallTime(timer.time_ns)
        self._encoder: Final = self._make_encoder()
        self._lock: Final = DirectoryLock(directory)
        try:
            self._sealer: Final = self._seal_earlier(tell)
            self.alarms: Final = self._make_alarms(
                bounds, when_full=when_full, promises=sync is Sync.ALWAYS, tell=tell
            )
            self._retention: Final = self._make_retention(bounds, tell)
            self.writer_thread: Final = WriterThread(
                buffer,
                self._encoder,
                self._next_segment_file,
                sync=sync,
                segment_bytes=bounds.segment_bytes,
                sealer=self._sealer,
                retention=self._retention,
                alarms=self.alarms,
                buffered=lambda: noted() - self.writer_thread.released,
                on_trouble=tell,
            )
            self.writer_thread.start()
        except OSError as error:
            self._lock.release()
            raise JournalError(f"cannot keep a journal in {directory}: {error.strerror}") from None
        except BaseException:
            self._lock.release()
            raise

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.node!r} in {str(self._directory)!r}>"

    def usage(self, *, buffered: int, max_buffered: int, dropped: int) -> Usage:
        """Return what the journal uses of its buffer, as given, and of its disk. O(1)."""
        alarms = self.alarms
        present = (self.writer_thread.trouble is not None, alarms.behind, alarms.low)
        return Usage(
            buffered=buffered,
            max_buffered=max_buffered,
            dropped=dropped,
            bytes=self._retention.bytes,
            free_bytes=alarms.free_bytes,
            disk_bytes=alarms.disk_bytes,
            removed=self._retention.removed,
            warnings=tuple(compress(REASONS, present)),
        )

    def close(self) -> None:
        """Write and sync what is buffered, then release the directory; blocks meanwhile. Once only."""
        self.writer_thread.stop()
        self._sealer.finish()
        self._lock.release()

    def _seal_earlier(self, tell: Callable[[str], None]) -> Sealer:
        """Queue the segments of earlier runs for sealing."""
        sealer = Sealer(self._directory, tell)
        for segment in list_segments(self._directory):
            if segment.live:
                sealer.add(segment)
        return sealer

    def _make_alarms(
        self, bounds: Bounds, *, when_full: WhenFull, promises: bool, tell: Callable[[str], None]
    ) -> Alarms:
        return Alarms(
            self._directory,
            limit=bounds.buffered,
            segment_bytes=bounds.segment_bytes,
            when_full=when_full,
            promises=promises,
            tell=tell,
        )

    def _make_retention(self, bounds: Bounds, tell: Callable[[str], None]) -> Retention:
        return Retention(
            self._directory,
            Ages(self._directory, self.id, self._now_ns, tell),
            now_ns=self._now_ns,
            keep_ns=bounds.keep_ns,
            keep_bytes=bounds.keep_bytes,
            on_trouble=tell,
        )

    def _make_encoder(self) -> Encoder:
        tick_ns = round(self._timer.tick * 1e9)
        now_ns = self._timer.time_ns()
        return Encoder(
            self.id,
            self.node,
            # Rounded down to a tick, so recorded deadlines are multiples of the tick, as in the timer.
            origin_ns=now_ns - now_ns % tick_ns,
            wall_ns=self._wall.offset_ns(),
            tick_ns=tick_ns,
            queue=self._timer.queue,
        )

    def _next_segment_file(self) -> SegmentFile:
        # The wall clock may have been set since the last segment.
        self._encoder.wall_ns = self._wall.offset_ns()
        return SegmentFile(Segment.named(self._directory, self.id, self.node, next(self._numbers)))

    def _now_ns(self) -> int:
        return self._timer.time_ns() + self._encoder.wall_ns


def _at_least(name: str, value: int, least: int) -> int:
    value = as_integer(name, value, f"an integer of at least {least}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


def _keep_ns(keep: float | dt.timedelta) -> int:
    seconds = keep.total_seconds() if isinstance(keep, dt.timedelta) else as_number("keep", keep, _KEEP)
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError(
            f"keep must be above 0 and at most {MAX_TIMEOUT:.0f} seconds (100 years), got {keep!r}"
        )
    return round(seconds * 1_000_000_000)
