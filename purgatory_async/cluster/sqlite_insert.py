"""Entries for a SQLite log, in a transaction that has begun: of a writer, or of the application."""

import sqlite3
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from purgatory_async.cluster.end_mark import EndMark, EndMarkFile
from purgatory_async.cluster.log import Appended, Head, LogDamaged, check_epoch, check_head
from purgatory_async.cluster.sqlite_schema import BOUNDS, seal, translating, unseal

__all__ = ["Inserter", "head_of"]


def head_of(connection: sqlite3.Connection | sqlite3.Cursor, path: Path) -> Head:
    """Read the state of the log in a file; raises `LogDamaged` or `LogUnavailable`."""
    with translating(path):
        rows = connection.execute(BOUNDS).fetchmany(2)
    if len(rows) != 1:
        raise LogDamaged(f"{path} must have one head, got {rows}")
    head = Head(*rows[0])
    check_head(head, path)  # damaged pages have values of any type
    return head


class Inserter:
    """Continues the order of a log's entries and its log time.

    Args:
        connection: To the file, of which the transaction is.
        path: The file.
        mark: The end mark beside it.
    """

    def __init__(
        self, connection: sqlite3.Connection | sqlite3.Cursor, path: Path, mark: EndMarkFile
    ) -> None:
        self._connection: Final = connection
        self._path: Final = path
        self._mark: Final = mark
        self._last = 0, 0  # the position and log time of the entry it inserted last

    def insert(self, entries: Sequence[bytes]) -> tuple[str, Appended]:
        """Insert entries; return the epoch, and what `Log.append` does. The transaction must hold the file's lock."""
        head = self.checked_head()
        self._check_newest(head)
        first, at_us = head.position + 1, max(head.at_us, self._now_us())
        rows = [(place, at_us, seal(data, place, at_us)) for place, data in enumerate(entries, first)]
        self._connection.executemany("INSERT INTO purgatory_log VALUES (?, ?, ?)", rows)
        self._last = first + len(rows) - 1, at_us
        return head.epoch, Appended(first, at_us)

    def checked_head(self) -> Head:
        """Read the log's state; raise `LogDamaged` if it has lost what the mark counts."""
        head, mark = head_of(self._connection, self._path), self._mark.read()
        if mark is not None:
            self._require_reached(mark, head)
            check_epoch(head, mark.epoch, self._path)
        return head

    def require_log(self, epoch: str = "") -> Head:
        """Return the log's state; raise `LogDamaged` unless the file is the one that others had open.

        Args:
            epoch: The epoch that it must have; any if not given.
        """
        head = self.checked_head()
        check_epoch(head, epoch, self._path)
        if self.may_have_lost(head):
            raise LogDamaged(f"{self._path} was replaced while in use; restart with the right file")
        return head

    def may_have_lost(self, head: Head) -> bool:
        """Whether the file is a copy, or lacks what readers had; raise `LogDamaged` if that is sure to be damage."""
        (made_as,) = self._connection.execute("SELECT inode FROM purgatory_head").fetchone()
        copied, mark = made_as != str(self._path.stat().st_ino), self._mark.read()
        if mark is None:
            return copied or head.position > 0
        if mark.safe or mark.boot == self._mark.boot:
            self._require_reached(mark, head)
        return copied or head.position < mark.position or mark.epoch != head.epoch

    def _check_newest(self, head: Head) -> None:
        """Check the entry whose position and log time the next one continues, unless it was inserted here."""
        if (head.position, head.at_us) != self._last and head.position:
            query = "SELECT entry FROM purgatory_log WHERE position = ?"
            (entry,) = self._connection.execute(query, [head.position]).fetchone()
            unseal(entry, head.position, head.at_us, "entry")

    def _require_reached(self, mark: EndMark, head: Head) -> None:
        if head.position < mark.position:
            raise LogDamaged(
                f"{self._path} must reach position {mark.position}, ends at {head.position}; to go on without what is "
                f"lost, delete {self._path}.lock",
                position=head.position + 1,
            )

    def _now_us(self) -> int:
        """The clock: it runs while the machine sleeps, and no step of the wall clock shows until the next boot."""
        up_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        boot, offset_us = self._connection.execute(
            "SELECT boot, boot_offset_us FROM purgatory_head"
        ).fetchone()
        if boot != self._sealed_boot(offset_us):
            if isinstance(boot, str) and boot.startswith(self._mark.boot):
                raise LogDamaged(f"{self._path} has a damaged clock: boot {boot}, offset {offset_us} us")
            offset_us = time.time_ns() // 1000 - up_us
            update = "UPDATE purgatory_head SET boot = ?, boot_offset_us = ?"
            self._connection.execute(update, [self._sealed_boot(offset_us), offset_us])
        return up_us + int(offset_us)

    def _sealed_boot(self, offset_us: object) -> str:
        return f"{self._mark.boot} {zlib.crc32(f'{self._mark.boot} {offset_us}'.encode()):08x}"
