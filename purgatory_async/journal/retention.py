"""Removes the oldest segments of a journal: those whose records are too old, and those that are too much.

Segments of a run and node go in their order, so what is left has no gap. The segment that grows stays.
"""

import datetime as dt
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

from purgatory_async.journal.ages import Ages
from purgatory_async.journal.reading import Readers
from purgatory_async.journal.segments import Segment, list_segments, sync_directory

__all__ = ["Retention"]

SHORTEST_NS: Final = 60_000_000_000
_SHARE: Final = 10  # of the time that records are kept, which one segment spans at most
_NS: Final = 1_000_000_000
_MIB: Final = 1 << 20
_LOG: Final = logging.getLogger("purgatory_async.journal")


class Retention:
    """Bounds a journal by age and size, or by neither. One thread uses it at a time.

    Args:
        directory: The journal's.
        ages: The ages of its segments.
        now_ns: Returns the present on the clock of the records' ``wall_ns``.
        keep_ns: How long a record is kept at least; None for ever.
        keep_bytes: How large the journal may be; None for any size.
        on_trouble: Called with one sentence when something cannot be removed.

    Attributes:
        bytes: The size of all segments at the last look.
        removed: How many segments were removed.
    """

    def __init__(
        self,
        directory: Path,
        ages: Ages,
        *,
        now_ns: Callable[[], int],
        keep_ns: int | None,
        keep_bytes: int | None,
        on_trouble: Callable[[str], None],
    ) -> None:
        self.bytes = 0
        self.removed = 0
        self._directory: Final = directory
        self._ages: Final = ages
        self._now_ns: Final = now_ns
        self._keep_ns: Final = keep_ns
        self._keep_bytes: Final = keep_bytes
        self._on_trouble: Final = on_trouble
        self._readers: Final = Readers(directory)
        self._stuck = False
        self._begun_ns = 0

    @property
    def busy(self) -> bool:
        """Whether it waits for a process."""
        return self._ages.busy

    @property
    def overdue(self) -> bool:
        """Whether the present segment must end, lest its first record be kept for much longer than wanted."""
        if self._keep_ns is None:
            return False
        return self._now_ns() - self._begun_ns >= max(self._keep_ns // _SHARE, SHORTEST_NS)

    def begin(self) -> None:
        """Note that the present segment gets its first record."""
        self._begun_ns = self._now_ns()

    def end(self, segment: Segment) -> None:
        """Note a segment that no longer grows. O(a line)."""
        if self._keep_ns is not None:
            self._ages.note(segment)

    def look(self, present: Segment, sealing: Segment | None) -> None:
        """Measure the journal, and remove what is too much of it. O(segments).

        Args:
            present: The segment that grows.
            sealing: The one that a process turns into Parquet, and that stays until it is.
        """
        try:
            self._look(present, sealing)
        except OSError as error:
            if not self._stuck:
                self._on_trouble(f"the journal cannot remove segments in {self._directory}: {error.strerror}")
            self._stuck = True
        else:
            self._stuck = False

    def _look(self, present: Segment, sealing: Segment | None) -> None:
        segments = list_segments(self._directory)
        self.bytes = sum(map(_size, segments))
        ended = [segment for segment in segments if segment.name != present.name]
        stays = None if sealing is None else sealing.name
        if self._keep_ns is not None and self._ages.learn(ended):
            old = [*self._old(ended, self._now_ns() - self._keep_ns, stays)]
            self._remove(old, f"their records are older than {dt.timedelta(seconds=self._keep_ns // _NS)}")
        if self._keep_bytes is not None and self.bytes > self._keep_bytes:
            left = [segment for segment in ended if segment.path.exists()]
            over = [*self._over(left, self.bytes - self._keep_bytes, stays)]
            self._remove(over, f"it had {_mib(self.bytes)} and may have {_mib(self._keep_bytes)}")

    def _old(self, ended: Sequence[Segment], before_ns: int, stays: str | None) -> Iterator[Segment]:
        """The segments of each run and node up to the first with a newer record."""
        for _, own in groupby(self._ages.of(ended), key=lambda each: (each[0].run_id, each[0].node)):
            for segment, newest_ns in own:
                if newest_ns >= before_ns or segment.name == stays:
                    break
                yield segment

    def _over(self, ended: Sequence[Segment], excess: int, stays: str | None) -> Iterator[Segment]:
        """The first segments that have together so many bytes."""
        for segment in ended:
            if excess <= 0 or segment.name == stays:
                return
            excess -= _size(segment)
            yield segment

    def _remove(self, segments: Sequence[Segment], why: str) -> None:
        if not segments:
            return
        with self._readers.kept_out() as free:
            if not free:
                return
            freed = sum(map(_size, segments))
            for segment in segments:
                # In this order, so that a crash leaves one form or none.
                segment.parquet.unlink(missing_ok=True)
                segment.lines.unlink(missing_ok=True)
            sync_directory(self._directory)
        self.removed += len(segments)
        self.bytes -= freed
        _LOG.info(
            "removed %d segments (%s) of the journal in %s, %s: %s",
            len(segments),
            " to ".join(dict.fromkeys((segments[0].name, segments[-1].name))),
            self._directory,
            _mib(freed),
            why,
        )

    def close(self) -> None:
        """End the process that reads ages, if one runs."""
        self._ages.close()


def _size(segment: Segment) -> int:
    """The bytes of a segment's file; 0 if it was renamed or removed meanwhile."""
    with suppress(FileNotFoundError):
        return segment.path.stat().st_size
    return 0


def _mib(size: int) -> str:
    return f"{size / _MIB:.1f} MiB"
