"""Entries for a log in a SQLite file from a program without a loop: at once, or in a transaction of its own.

A transaction of the application needs no turn: until it ends, it has SQLite's own lock. What it commits is counted by
the next writer, or by a follower at its next poll (50 ms), as after the death of a writer; see `end_mark`.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from purgatory_async.cluster.end_mark import EndMarkFile
from purgatory_async.cluster.log import LogError
from purgatory_async.cluster.nudges import tell
from purgatory_async.cluster.sqlite_file import SqliteWriter
from purgatory_async.cluster.sqlite_insert import Inserter, head_of
from purgatory_async.cluster.sqlite_schema import BUSY_S, translating, unusable

__all__ = ["append_once", "append_within"]

Entries = Callable[[int], Sequence[bytes]]
"""Returns the entries for a log, given its newest position."""

_LEGACY: Final = -1  # `sqlite3.LEGACY_TRANSACTION_CONTROL`, of Python 3.12


def append_once(path: Path, entries: Entries) -> None:
    """Append to a log that exists, in a commit that waits for the disk, and nudge its followers.

    Raises:
        LogError: There is no log.
        LogDamaged, LogUnavailable: As `Log.append`.
    """
    if not path.is_file():
        raise _no_log(path)
    with (
        translating(path),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=BUSY_S, uri=True)) as connection,
    ):
        _require_log(connection.cursor(), path)
        epoch = head_of(connection, path).epoch
    writer = SqliteWriter(path, "always", epoch)
    try:
        writer.append(entries(writer.opened.position), partial(tell, path.with_name(f"{path.name}.d")))
    finally:
        writer.leave()


def append_within(connection: sqlite3.Connection, entries: Entries) -> None:
    """Append to the log in the file of a connection, as an INSERT there would: it counts once that is committed.

    Raises:
        ValueError: The connection is to no file.
        LogError: There is no log.
        LogDamaged, LogUnavailable: As `Log.append`.
    """
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        path = _file_of(cursor)
        if not connection.in_transaction and _commits_by_itself(connection):
            append_once(path, entries)
            return
        with translating(path):
            _require_log(cursor, path)
            # A write takes the lock, so that what is read next stays the newest.
            cursor.execute("UPDATE purgatory_head SET boot = boot")
            try:
                mark = EndMarkFile(path)
            except OSError as error:
                raise unusable(error, f"{path}.lock") from error
            with closing(mark):
                inserter = Inserter(cursor, path, mark)
                inserter.insert(entries(inserter.require_log().position))


def _file_of(cursor: sqlite3.Cursor) -> Path:
    (file,) = (row[2] for row in cursor.execute("PRAGMA database_list") if row[1] == "main")
    if not file:
        raise ValueError(f"the store must be a connection to a file, got one to {file!r}, which is in memory")
    return Path(file)


def _commits_by_itself(connection: sqlite3.Connection) -> bool:
    mode = getattr(connection, "autocommit", _LEGACY)
    return connection.isolation_level is None if mode == _LEGACY else bool(mode)


def _require_log(cursor: sqlite3.Cursor, path: Path) -> None:
    if not cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'purgatory_head'").fetchall():
        raise _no_log(path)


def _no_log(path: Path) -> LogError:
    return LogError(
        f"there is no log in {path}; a worker creates it, or: purgatory store init sqlite:///{path}"
    )
