"""A log in a SQLite file, for any number of processes on one machine."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal

from purgatory_async.cluster.connection import retrieve
from purgatory_async.cluster.engine_log import EngineLog
from purgatory_async.cluster.log import (
    Appended,
    Checkpoint,
    Entry,
    Head,
    LogError,
    LogGap,
    LogUnavailable,
    check_empty,
    load_parts,
    save_parts,
)
from purgatory_async.cluster.nudges import Nudges
from purgatory_async.cluster.sqlite_file import SYNCS, SqliteReader, SqliteWriter, check_file_system
from purgatory_async.cluster.sqlite_lock import holder_of
from purgatory_async.cluster.sqlite_schema import unusable
from purgatory_async.cluster.worker_thread import WorkerThread

__all__ = ["SqliteLog"]

POLL_S: Final = 0.05  # how late a follower hears if a nudge is lost
CLOSE_S: Final = 5.0
LATE_S: Final = 4.5  # after which a commit is late; a client waits 5 s


class SqliteLog(EngineLog):
    """A log in a SQLite file: no server, and what was appended survives ``kill -9`` and power loss.

    Beside the file there are SQLite's own two, ``PATH.lock`` and the folder ``PATH.d``; copy the file only while no
    process has it open. Log time follows no step of the wall clock until the machine starts again.

    Args:
        path: The file; made if it is missing, in a folder that must exist, on a local file system.
        sync: ``"always"`` waits for the disk in each commit; with ``"os"`` a power loss may take the last moments.

    Raises:
        ValueError: ``sync`` is neither.

    >>> import asyncio, tempfile
    >>> async def main(folder):
    ...     log = SqliteLog(f"{folder}/orders.db")
    ...     await log.open()
    ...     appended = await log.append([b"a", b"b"])
    ...     await log.aclose()
    ...     return appended.first
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    1
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: Literal["always", "os"] = "always") -> None:
        if sync not in SYNCS:
            raise ValueError(f"sync must be one of {', '.join(map(repr, SYNCS))}, got {sync!r}")
        self._path = Path(path).absolute()
        self._sync = sync
        super().__init__(lambda: POLL_S)
        self._late: asyncio.Future[Appended] | None = None  # the last commit
        # What each thread opens, it closes.
        self._of_loop, self._of_writing, self._of_reading = ExitStack(), ExitStack(), ExitStack()

    def __repr__(self) -> str:
        return f"<SqliteLog {self._path} {self._open.state}>"

    async def open(self, *, epoch: str = "") -> Head:
        """Open the file, or create it; see `Log.open`.

        Raises:
            LogRefused: The folder does not exist, or is on a network file system.
            LogUnavailable: The file cannot be opened.
            LogDamaged: It is no log, lost its newest entries, or is not there with that epoch.
        """
        check_file_system(self._path)
        self._open.open()
        self._writing = WorkerThread("purgatory-sqlite-writer")
        self._reading = WorkerThread("purgatory-sqlite-reader")
        for thread in (self._writing, self._reading):
            thread.start()
        try:
            self._nudges = Nudges(self._path.with_name(f"{self._path.name}.d"), self._told, self._tail.hint)
            self._of_loop.callback(self._nudges.close)
            head = await self._writing.submit(partial(self._open_writer, epoch))
            await self._reading.submit(self._open_reader)
        except BaseException as error:
            await self.aclose()
            if isinstance(error, OSError):
                raise unusable(error, f"{self._path}.d") from error
            raise
        self._epoch = head.epoch
        return head

    async def change_epoch(self) -> str:
        """Make another epoch, as after a backup was restored; return it."""
        self._open.require("change its epoch")
        return await self._writing.submit(self._writer.change_epoch)

    def end_now(self) -> int | None:
        """Return the newest position without asking; see `Log.end_now`. Reads a few bytes of ``PATH.lock``. O(1)."""
        self._open.require("ask for its end")
        mark = None
        with suppress(OSError):
            if not self._reader.mark.removed:
                mark = self._reader.mark.read()
        return mark.position if mark is not None and mark.epoch == (self._follows or self._epoch) else None

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """Save a checkpoint and trim; see `Log.save`. Appends go on between the parts."""
        self._open.require("save")
        await self._writing.submit(partial(self._writer.check_save, position, keep))
        count = await self._saved(position, parts)
        await self._writing.submit(partial(self._writer.publish, position, keep, count))
        while await self._writing.submit(partial(self._writer.trim, position - keep)):
            pass

    async def begin(self, entry: Entry, parts: AsyncIterator[bytes]) -> None:
        """Let an empty log begin with a checkpoint at an entry, which becomes its oldest; all of it in one step.

        Raises:
            LogError: The log is not empty, or another process saves a checkpoint; nothing has changed.
        """
        self._open.require("begin")
        check_empty(await self._reading.submit(self._reader.head), self._path)
        count = await self._saved(entry.position, parts)
        await self._writing.submit(partial(self._writer.begin, entry, count))

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint; see `Log.load`."""
        self._open.require("load")
        position, epoch = await self._reading.submit(partial(self._reader.loads, below))
        parts = load_parts(position, self._part, lambda: self._reading.submit(self._reader.head))
        return Checkpoint(position, parts, epoch) if position else None

    async def aclose(self) -> None:
        """Finish the commit under way and close the file; see `Log.aclose`."""
        if not self._open.close():
            return
        self._tail.hint()
        await self._trip.aclose()
        # One after the other: two that close at once would each leave the write-ahead log to the other.
        threads = {self._reading: self._reading.submit(self._of_reading.close)}
        self._reading.stop()
        await asyncio.wait(threads.values(), timeout=CLOSE_S)
        threads[self._writing] = self._writing.submit(self._of_writing.close)
        self._writing.stop()
        # Nothing can be lost any more, whatever error closing raised.
        closing = asyncio.gather(*threads.values(), return_exceptions=True)
        closing.add_done_callback(lambda _: self._of_loop.close())
        # A stopped process may hold the lock for ever; then the threads are left behind.
        await asyncio.wait([closing], timeout=CLOSE_S)
        unknown = LogError(f"log is closed: the outcome of its last call on {self._path} is unknown")
        for thread, its_end in threads.items():
            thread.abandon(unknown, but=its_end)
        await self._queue.aclose()

    def _open_writer(self, epoch: str) -> Head:
        self._writer = SqliteWriter(self._path, self._sync, epoch)
        self._of_writing.callback(self._writer.close)
        return self._writer.opened

    def _open_reader(self) -> None:
        self._reader = SqliteReader(self._path, self._sync)
        self._of_reading.callback(self._reader.close)

    async def _append(self, entries: Sequence[bytes]) -> Appended:
        if self._late is not None:
            await self._require_done(self._late)
        # Told in its turn, so others hear of all batches in their order, and this process of those before its own.
        commit = self._late = self._writing.submit(partial(self._writer.append, entries, self._nudges.send))
        commit.add_done_callback(retrieve)
        await self._require_done(commit)
        appended = commit.result()
        if self._open:
            self._nudges.drain()
        self._tail.append(self._epoch, appended, entries)
        return appended

    async def _require_done(self, commit: asyncio.Future[Appended]) -> None:
        """Wait for a commit; a process stopped with the lock makes it wait, maybe for ever."""
        done, _ = await asyncio.wait([commit], timeout=LATE_S)
        if not done:
            holder = holder_of(self._path)
            why = f"{holder} holds its lock" if holder else f"a commit takes more than {LATE_S} s"
            raise LogUnavailable(
                f"{self._path} is not usable: {why}", cause="locked" if holder else "timeout"
            )

    def _told(self, epoch: str, appended: Appended, entries: Sequence[bytes]) -> None:
        if epoch == self._epoch:
            self._tail.append(epoch, appended, entries)
        else:
            self._tail.hint()  # a follower meets the other epoch

    async def _read(self, epoch: str, after: int) -> Sequence[Entry]:
        try:
            return await self._reading.submit(partial(self._reader.read, after, epoch))
        except LogGap as gap:
            self._epoch = gap.epoch
            raise

    async def _end(self) -> int:
        try:
            return await self._reading.submit(partial(self._reader.end, self._epoch))
        except LogUnavailable:
            self._tail.hint()  # a follower meets the other epoch
            raise

    async def _saved(self, position: int, parts: AsyncIterator[bytes]) -> int:
        """Save the parts of a checkpoint, still invisible; return their number."""
        while await self._writing.submit(self._writer.drop_parts):  # what an interrupted save left, too
            pass
        return await save_parts(parts, partial(self._save_part, position))

    async def _save_part(self, position: int, number: int, part: bytes) -> None:
        await self._writing.submit(partial(self._writer.save_part, position, number, part))

    async def _part(self, position: int, number: int) -> bytes | None:
        return await self._reading.submit(partial(self._reader.part, position, number))
