"""Warns while a journal can still be helped: before its buffer is full, and before its disk is.

It says each reason once when it begins and once when it is over.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from purgatory_async.errors import check_result

REASONS: Final = ("disk", "buffer", "space")
"""Why a journal warns: its disk cannot be written to, its buffer fills up, or its disk is nearly full."""
_MIB: Final = 1 << 20
_SHARE: Final = 10  # of the disk, below which it counts as nearly full
_SEGMENTS: Final = 4  # or below so many of them
_LOG: Final = logging.getLogger("purgatory_async.journal")


class WhenFull(StrEnum):
    """What to give up when the disk falls behind and the buffer is full.

    Attributes:
        DROP: Records. The purgatory goes on; dropped records are counted, and their numbers are missing in the journal.
        REFUSE: New operations, once the buffer is half full: `Journal.accepting` turns False, and the caller asks it
            before it submits. The other half is for the outcomes of pending operations.
    """

    DROP = "drop"
    REFUSE = "refuse"


def guarded(on_trouble: Callable[[str], object]) -> Callable[[str], None]:
    """Wrap a callback, so that an error of it is logged and harms neither thread nor loop."""

    def _tell(sentence: str) -> None:
        try:
            returned: object = on_trouble(sentence)
            check_result("on_trouble", on_trouble, returned)
        except BaseException as error:  # noqa: BLE001 - a failing callback must not end the thread
            _LOG.warning("%r raised %r when called with: %s", on_trouble, error, sentence)

    return _tell


@dataclass(frozen=True, slots=True)
class Usage:
    """What a journal uses.

    Attributes:
        buffered: Records that wait for the disk.
        max_buffered: Their bound.
        dropped: Records that were lost.
        bytes: Size of its segments, at most a minute old.
        free_bytes: What its disk has left, at most a minute old.
        disk_bytes: Size of its disk.
        removed: How many segments ``keep`` and ``keep_bytes`` have removed.
        warnings: The `REASONS` that hold.
    """

    buffered: int
    max_buffered: int
    dropped: int
    bytes: int
    free_bytes: int
    disk_bytes: int
    removed: int
    warnings: tuple[str, ...]


class Alarms:
    """The two warnings of a journal. The loop's thread raises the buffer's; the writer thread does the rest.

    Args:
        directory: The journal's.
        limit: Bound of the buffer.
        segment_bytes: Size of a segment.
        when_full: What to give up when the buffer is full.
        promises: Whether a change may be promised only once it is on the disk.
        tell: Called with each sentence; must not raise.

    Attributes:
        due_at: How many buffered records are too many.
        behind: Whether so many were buffered, and half of them still are.
        low: Whether the disk is nearly full.
        free_bytes: What it had left at the last look.
        disk_bytes: Its size.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limit: int,
        segment_bytes: int,
        when_full: WhenFull,
        promises: bool,
        tell: Callable[[str], None],
    ) -> None:
        self.due_at: Final = limit // 4
        self.behind = False
        self.low = False
        self.free_bytes = 0
        self.disk_bytes = 0
        self._directory: Final = directory
        self._limit: Final = limit
        self._least: Final = _SEGMENTS * segment_bytes
        refuses = when_full is WhenFull.REFUSE
        self._loss: Final = (
            f"from {limit // 2} on new operations are refused"
            if refuses
            else f"from {limit} on records are dropped"
        )
        self._full: Final = (
            "no change can be promised"
            if promises
            else "new operations are refused"
            if refuses
            else "records wait in memory"
        )
        self._tell: Final = tell
        self._measure()

    def explained(self, sentence: str, buffered: int) -> str:
        """Add to a sentence about a failing disk how much space is left, and what happens next."""
        self._measure()
        return f"{sentence}; {self._figures(buffered)}; {self._full}"

    def _figures(self, buffered: int) -> str:
        return f"{buffered} of {self._limit} records wait in memory, {self._room()} on the disk"

    def _room(self) -> str:
        return f"{self.free_bytes / _MIB:.0f} of {self.disk_bytes / _MIB:.0f} MiB are free"

    def _measure(self) -> None:
        with suppress(OSError):  # then the figures stay
            found = os.statvfs(self._directory)
            self.free_bytes, self.disk_bytes = (
                found.f_bavail * found.f_frsize,
                found.f_blocks * found.f_frsize,
            )

    def rise(self, buffered: int) -> None:
        """Warn that records wait. O(1)."""
        if not self.behind:
            self._tell(
                f"the disk does not keep up with the journal in {self._directory}: {self._figures(buffered)}; "
                f"{self._loss}: give it a faster disk or a weaker sync"
            )
            self.behind = True  # after its sentence, as in `ease`: the two threads take turns

    def ease(self, buffered: int) -> None:
        """Tell the end of that warning once few records wait. O(1)."""
        if self.behind and buffered < self.due_at // 2:
            self._tell(f"the disk keeps up with the journal again: {buffered} of {self._limit} records wait")
            self.behind = False

    def look(self) -> None:
        """Measure the disk, and warn if it is nearly full. O(1)."""
        self._measure()
        least = max(self.disk_bytes // _SHARE, self._least)
        if not self.low and self.free_bytes < least and self.disk_bytes:  # some file systems tell no size
            self.low = True
            self._tell(
                f"the disk of the journal in {self._directory} is nearly full: {self._room()}; once it is full, "
                f"{self._full}: free some space, or keep less of the journal"
            )
        elif self.low and self.free_bytes >= least + least // 4:
            self.low = False
            self._tell(f"the disk of the journal in {self._directory} has room again: {self._room()}")
