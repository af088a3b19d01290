"""The calls on a log in a SQLite file that block: each runs on a thread of `SqliteLog`.

Appends of all processes take turns on a lock file, whose queue is fair; SQLite's own busy wait sleeps and is not.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from purgatory_async.cluster.end_mark import EndMarkFile
from purgatory_async.cluster.log import (
    MAX_READ_ENTRIES,
    Appended,
    Entry,
    Head,
    LogDamaged,
    LogError,
    LogGap,
    LogRefused,
    LogUnavailable,
    check_empty,
    check_save,
    loads,
    new_epoch,
    one_read,
)
from purgatory_async.cluster.sqlite_insert import Inserter, head_of
from purgatory_async.cluster.sqlite_schema import (
    BEFORE,
    BUSY_S,
    DROP,
    GROWN_BYTES,
    TABLES,
    WAL_BOUND,
    require_same,
    seal,
    translating,
    truncate_wal,
    unseal,
    unusable,
    verified,
)

__all__ = ["SYNCS", "SqliteReader", "SqliteWriter", "check_file_system"]

SYNCS: Final = {"always": "FULL", "os": "NORMAL"}
"""The values of ``sync``, each with SQLite's word for it."""

TRIM_SLICE: Final = 5_000  # entries; trimming more at once would delay appends
DROP_SLICE: Final = 4  # parts of about 1 MiB, for the same reason

# A write-ahead log of 16 MB, so that fsyncs are few; what can be checked of pages is checked.
_SETTINGS: Final = ("journal_mode=WAL", "wal_autocheckpoint=4000", "cell_size_check=ON")
_NETWORK: Final = ("nfs", "cifs", "smb", "ncpfs", "afs", "fuse.sshfs")
_MOUNTS: Final = Path("/proc/self/mountinfo")


class _File:
    """One connection to the file.

    Args:
        path: The SQLite file.
        sync: A key of `SYNCS`.
    """

    def __init__(self, path: Path, sync: str) -> None:
        self.path = path
        self.sync = sync
        self._inode = path.stat().st_ino
        with translating(self.path):
            self._connection = sqlite3.connect(
                f"{path.as_uri()}?mode=rw",
                timeout=BUSY_S,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            try:
                for setting in (*_SETTINGS, f"synchronous={SYNCS[sync]}", WAL_BOUND):
                    self._connection.execute(f"PRAGMA {setting}").fetchall()
            except BaseException:
                self._connection.close()
                raise

    def head(self) -> Head:
        """Read the log's state."""
        return head_of(self._connection, self.path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteReader(_File):
    """What the reader thread does.

    Attributes:
        mark: The end mark, which the loop reads, too.
    """

    def __init__(self, path: Path, sync: str) -> None:
        super().__init__(path, sync)
        try:
            self.mark: Final = EndMarkFile(path)
        except OSError as error:
            super().close()
            raise unusable(error, str(path)) from error

    def close(self) -> None:
        """Close the connection and the end mark."""
        super().close()
        self.mark.close()

    def read(self, after: int, epoch: str) -> list[Entry]:
        """Read the entries after a position, as many as one read has; none if it is the newest.

        Raises:
            LogGap: They are gone, or the epoch is another one.
        """
        entries = self._stored(after, epoch)
        if not entries or self._counts(entries[-1].position):
            return entries
        end = self._end_mark()
        return [entry for entry in entries if entry.position <= end]

    def _counts(self, position: int) -> bool:
        """Whether the mark is at a position or after it; if no writer has its turn, that is made so."""
        if self._end_mark() >= position:
            return True
        with self._marking(), self.mark.turn_if_free() as free:
            if free:  # the writer has died; it did not say whether its disk has it
                head, mark = self.head(), self.mark.read()
                if mark is None or (mark.epoch == head.epoch and mark.position < head.position):
                    self.mark.write(head.epoch, head.position, safe=False)
            return free and self._end_mark() >= position

    def _end_mark(self) -> int:
        with self._marking():
            mark = self.mark.read()
        return 0 if mark is None else mark.position

    @contextmanager
    def _marking(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unusable(error, f"{self.path}.lock") from error

    def _stored(self, after: int, epoch: str) -> list[Entry]:
        query = (
            "SELECT position, at_us, entry FROM purgatory_log WHERE position > ? ORDER BY position LIMIT ?"
        )
        with (
            translating(self.path),
            closing(self._connection.execute(query, [after, MAX_READ_ENTRIES])) as rows,
        ):
            first = next(rows, None)
            if first is not None and first[0] == after + 1:
                return one_read(verified(chain([first], rows), after))
        require_same(self.path, self._inode)
        head = self.head()
        if head.epoch == epoch and head.oldest - 1 <= after <= head.position:
            if first is not None:
                raise LogDamaged(f"entry {after + 1} must come next, got {first[0]}", position=after + 1)
            return []  # what has come since the query is for the next read
        raise LogGap(
            f"after must be from {head.oldest - 1} to {head.position}, got {after}; the entries between are gone",
            oldest=head.oldest,
            epoch=head.epoch,
        )

    def end(self, epoch: str) -> int:
        """Return the newest position; raises `LogUnavailable` if the epoch is another one."""
        require_same(self.path, self._inode)
        if (head := self.head()).epoch != epoch:
            raise LogUnavailable(f"{self.path} must have epoch {epoch}, got {head.epoch}: read it again")
        with self._marking():
            mark = self.mark.read()
        # What is behind it has no answer yet, and will be handed out once it is counted.
        return head.position if mark is None else min(head.position, mark.position)

    def loads(self, below: int | None) -> tuple[int, str]:
        """Return the position of the checkpoint to load, see `loads`, and the epoch."""
        with translating(self.path):
            head = self.head()
            (before,) = self._connection.execute(BEFORE, [head.checkpoint]).fetchone() or (0,)
        return loads(head, before, below), head.epoch

    def part(self, position: int, number: int) -> bytes | None:
        """Read one part of a checkpoint; the last one is empty. None if it is not there."""
        query = "SELECT data FROM purgatory_checkpoint WHERE position = ? AND part = ?"
        with translating(self.path):
            row = self._connection.execute(query, [position, number]).fetchone()
        return None if row is None else unseal(row[0], position, number, f"part {number} of checkpoint")


class SqliteWriter(_File):
    """What the writer thread does; it creates the log if there is none, unless it must have an epoch.

    Attributes:
        opened: The log's state when it was opened.
    """

    def __init__(self, path: Path, sync: str, epoch: str) -> None:
        try:
            _require_file(path, create=not epoch)
            self._mark: Final = EndMarkFile(path, create=not epoch)
        except OSError as error:
            if epoch and isinstance(error, FileNotFoundError):
                raise LogDamaged(f"{error.filename} was removed while in use; put it back") from error
            raise unusable(error, str(path)) from error
        try:
            self._mark.wait(BUSY_S)
            with self._mark.turn():  # the log exists already
                super().__init__(path, sync)
                self._inserter: Final = Inserter(self._connection, path, self._mark)
                try:
                    if epoch:
                        self._inserter.require_log(epoch)
                    else:
                        self._create()
                    self.opened: Final = self.head()
                except BaseException:
                    super().close()
                    raise
        except BaseException:
            self._mark.close()
            raise

    def close(self) -> None:
        """Close the connection and the lock file."""
        truncate_wal(self._connection, self.path)
        self.leave()

    def leave(self) -> None:
        """Do as `close`, but leave the write-ahead log to the others, or to SQLite if there are none."""
        super().close()
        self._mark.close()

    def append(
        self, entries: Sequence[bytes], tell: Callable[[str, Appended, Sequence[bytes]], object]
    ) -> Appended:
        """Append entries in one transaction.

        Args:
            entries: The entries.
            tell: Called with the epoch and the batch once readers may have it, and before any later one can come.
        """
        with self._mark.turn(), self._transaction():
            require_same(self.path, self._inode)
            require_same(self.path.with_name(f"{self.path.name}.lock"), self._mark.inode)
            epoch, appended = self._inserter.insert(entries)
            self._connection.execute("COMMIT")
            self._count(epoch, appended.first + len(entries) - 1)
            tell(epoch, appended, entries)
        return appended

    def change_epoch(self) -> str:
        """Make another epoch; return it."""
        epoch = new_epoch()
        with self._mark.turn(), self._transaction():
            self._connection.execute("UPDATE purgatory_head SET epoch = ?", [epoch])
            position = self.head().position
            self._connection.execute("COMMIT")
            self._count(epoch, position, durable=True)
        return epoch

    def check_save(self, position: int, keep: int) -> None:
        """Raise `ValueError` if a position cannot be saved."""
        check_save(position, keep, self._inserter.checked_head())

    def drop_parts(self) -> bool:
        """Delete some parts of other checkpoints than the newest; True if more are left to delete."""
        with self._mark.turn(), self._transaction():
            deleted = self._connection.execute(DROP, [DROP_SLICE]).rowcount
            self._connection.execute("COMMIT")
        return deleted == DROP_SLICE

    def save_part(self, position: int, number: int, data: bytes) -> None:
        """Store one part, still invisible; the last one is empty."""
        row = (position, number, seal(data, position, number))
        with self._mark.turn(), self._transaction():
            try:
                self._connection.execute("INSERT INTO purgatory_checkpoint VALUES (?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise LogError(f"checkpoint {position} is being saved by another process, too") from None
            self._connection.execute("COMMIT")

    def publish(self, position: int, keep: int, count: int) -> None:
        """Make the saved parts the checkpoint."""
        with self._mark.turn(), self._transaction():
            check_save(position, keep, self._inserter.checked_head())
            self._publish(position, count)
            self._connection.execute("COMMIT")

    def begin(self, entry: Entry, count: int) -> None:
        """Make the saved parts the checkpoint of an empty log, and an entry its only one."""
        position, at_us, data = entry
        with self._mark.turn(), self._transaction():
            head = self._inserter.checked_head()
            check_empty(head, self.path)
            row = (position, at_us, seal(data, position, at_us))
            self._connection.execute("INSERT INTO purgatory_log VALUES (?, ?, ?)", row)
            self._publish(position, count)
            self._connection.execute("COMMIT")
            self._count(head.epoch, position)

    def trim(self, last: int) -> bool:
        """Delete some entries up to a position, but never the newest; True if more are left to delete."""
        with self._mark.turn(), self._transaction():
            head = self._inserter.checked_head()
            last = min(last, head.position - 1)  # the newest entry holds the position and the log time
            upto = min(last, head.oldest + TRIM_SLICE - 1)
            self._connection.execute("DELETE FROM purgatory_log WHERE position <= ?", [upto])
            self._connection.execute("COMMIT")
            if upto >= last:
                truncate_wal(self._connection, self.path, GROWN_BYTES)
        return upto < last

    def _publish(self, position: int, count: int) -> None:
        query = "SELECT count(*) FROM purgatory_checkpoint WHERE position = ?"
        (found,) = self._connection.execute(query, [position]).fetchone()
        if found != count:
            raise LogError(
                f"checkpoint {position} was removed by another save: {found} of {count} parts are left"
            )
        self._connection.execute("UPDATE purgatory_head SET checkpoint = ?", [position])

    def _create(self) -> None:
        with self._transaction():
            for statement in TABLES.split(";"):
                self._connection.execute(statement)
            insert = "INSERT INTO purgatory_head SELECT ?, 0, '', 0, ? WHERE NOT EXISTS (SELECT 1 FROM purgatory_head)"
            self._connection.execute(insert, [new_epoch(), str(self._inode)])
            head = self.head()
            epoch = head.epoch
            if self._inserter.may_have_lost(head):
                # A copy, a restored backup or a power loss: what others saw after its end may never come.
                epoch = new_epoch()
                update = "UPDATE purgatory_head SET epoch = ?, inode = ?"
                self._connection.execute(update, [epoch, str(self._inode)])
            self._connection.execute("COMMIT")
        self._count(epoch, head.position, durable=True)

    def _count(self, epoch: str, position: int, *, durable: bool = False) -> None:
        # After the commit, so it is never ahead of what is safe; behind by a crash in between, see `end_mark`.
        try:
            self._mark.write(epoch, position, safe=self.sync == "always", durable=durable)
        except OSError as error:
            raise unusable(error, f"{self.path}.lock") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with translating(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


def _require_file(path: Path, *, create: bool) -> None:
    """Raise `OSError` unless a file is there and may be written; SQLite would create one that others can read.

    One that exists is not opened: to close it would release the locks that SQLite has of this process, and then the
    last connection of another one takes the write-ahead log away.
    """
    if create and not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600))
    path.stat()
    if path.is_dir() or not os.access(path, os.R_OK | os.W_OK):
        number = errno.EISDIR if path.is_dir() else errno.EACCES
        raise OSError(number, os.strerror(number), f"{path}")


def check_file_system(path: Path) -> None:
    """Raise `LogRefused` if the file would be on a network file system, or in a folder that does not exist."""
    try:
        device = path.parent.stat().st_dev
    except OSError as error:
        raise LogRefused(f"the folder of {path} must exist, got: {error.strerror}") from error
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        mount, _, system = line.partition(" - ")
        name = system.split(" ", 1)[0]
        if mount.split()[2] == f"{os.major(device)}:{os.minor(device)}" and name.startswith(_NETWORK):
            raise LogRefused(
                f"{path} must be on a local file system, got {name}: processes on other machines would not see its "
                "locks; use Postgres or Redis"
            )
