"""How a log is laid out in a SQLite file, and how damage shows.

SQLite checks no page of its file, so each blob ends with a checksum over itself and its place. Entries must be
consecutive, and a checkpoint ends with an empty part. What is left is the loss of the newest entries, as by a cut
write-ahead log, which SQLite takes for a crash: `end_mark` remembers outside of the file how far it went.
"""

import errno
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import OLDER_STORE, Entry, LogDamaged, LogRefused, LogUnavailable, check_time
from purgatory_async.cluster.sqlite_lock import holder_of

__all__ = [
    "BEFORE",
    "BOUNDS",
    "BUSY_S",
    "DROP",
    "GROWN_BYTES",
    "TABLES",
    "WAL_BOUND",
    "require_same",
    "seal",
    "translated",
    "translating",
    "truncate_wal",
    "unseal",
    "unusable",
    "verified",
    "wal_bytes",
]

TABLES: Final = """
CREATE TABLE IF NOT EXISTS purgatory_log(
    position INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, entry BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS purgatory_checkpoint(
    position INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (position, part));
CREATE TABLE IF NOT EXISTS purgatory_head(
    epoch TEXT NOT NULL, checkpoint INTEGER NOT NULL, boot TEXT NOT NULL, boot_offset_us INTEGER NOT NULL,
    inode TEXT NOT NULL);
"""

BOUNDS: Final = """
SELECT h.epoch, coalesce((SELECT max(position) FROM purgatory_log), 0),
    coalesce((SELECT at_us FROM purgatory_log ORDER BY position DESC LIMIT 1), 0),
    coalesce((SELECT min(position) FROM purgatory_log), 1), h.checkpoint FROM purgatory_head h
"""
# The parts of a save that another one has overtaken are not all there.
BEFORE: Final = """
SELECT position FROM purgatory_checkpoint WHERE position < ?
GROUP BY position HAVING count(*) = max(part) + 1 ORDER BY position DESC LIMIT 1
"""
DROP: Final = """
DELETE FROM purgatory_checkpoint WHERE rowid IN (
    SELECT rowid FROM purgatory_checkpoint WHERE position <> (SELECT checkpoint FROM purgatory_head) LIMIT ?
)
"""
WAL_BOUND: Final = f"journal_size_limit={64 << 20}"
"""Size to which the write-ahead log is cut after it grew for a reader."""

GROWN_BYTES: Final = 20_000_000
"""Of a write-ahead log that grew beyond the usual 16 MB."""

BUSY_S: Final = 4.0
"""For another program, such as a shell; the reason comes before a client's 503."""

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
# Errors that do not pass with time.
_HOPELESS: Final = {
    *(errno.EACCES, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM),
}
_CHECKSUM: Final = struct.Struct("<I")
_PLACE: Final = struct.Struct("<qq")


def seal(data: bytes, position: int, second: int) -> bytes:
    """Add the checksum of a blob and its place: position and log time of an entry, position and number of a part."""
    return data + _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(_PLACE.pack(position, second))))


def unseal(blob: object, position: int, second: int, what: str) -> bytes:
    """Return the data, or raise `LogDamaged` if its checksum does not match."""
    if isinstance(blob, bytes) and len(blob) >= _CHECKSUM.size:
        data = blob[: -_CHECKSUM.size]
        if seal(data, position, second) == blob:
            return data
    raise LogDamaged(f"{what} {position} must match its checksum, but does not", position=position)


def verified(rows: Iterable[tuple[int, int, bytes]], after: int) -> Iterator[Entry]:
    """Yield the rows as entries; raise `LogDamaged` at the first that is missing or does not match."""
    for position, at_us, blob in rows:
        after += 1
        if position != after:
            raise LogDamaged(f"entry {after} must come next, got {position}", position=after)
        if not isinstance(at_us, int):
            raise LogDamaged(f"entry {position} must have a log time, got {at_us!r}", position=position)
        check_time(at_us, position)
        yield Entry(position, at_us, unseal(blob, position, at_us, "entry"))


def require_same(path: Path, inode: int) -> None:
    """Raise `LogDamaged` if a path no longer leads to the file that is open."""
    try:
        replaced = path.stat().st_ino != inode
    except FileNotFoundError:
        replaced = True
    except OSError as error:
        raise LogUnavailable(f"{path} is not usable: {error.strerror}", cause=cause_of(error)) from error
    if replaced:
        raise LogDamaged(f"{path} was moved or replaced while in use; restart with the right file")


def translated(error: sqlite3.Error, path: Path) -> LogDamaged | LogUnavailable:
    """Return what an error of SQLite means for the log."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    # Names and types that are not ours come from damaged pages, too.
    if code == sqlite3.SQLITE_ERROR:
        return LogDamaged(f"{path} is damaged: {error}; {OLDER_STORE}")
    if code in _DAMAGE or isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
        return LogDamaged(f"{path} is damaged: {error}")
    cause = cause_of(error)
    holder = holder_of(path) if cause == "locked" else None
    held = f"; {holder} holds its lock" if holder else ""
    return LogUnavailable(f"{path} is not usable: {error}{held}", cause=cause)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise SQLite's errors in the block as `translated`."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error


def truncate_wal(connection: sqlite3.Connection, path: Path, least: int = 0) -> None:
    """Write the write-ahead log into the file and cut it to nothing, unless a reader or another writer is at work.

    One of less than ``least`` bytes is left as it is.
    """
    if wal_bytes(path) < least:
        return
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_S)}")


def wal_bytes(path: str | Path) -> int:
    """Return the size of the write-ahead log of a file; 0 if there is none."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except OSError:
        return 0


def unusable(error: OSError, path: str) -> LogRefused | LogUnavailable:
    """Return what an error of the system means for a log that is opened; ``path`` is where, if it does not say so."""
    kind = LogRefused if error.errno in _HOPELESS else LogUnavailable
    return kind(f"{error.filename or path} is not usable: {error.strerror}", cause=cause_of(error))
