"""The directory of a journal while it is written: locked, with one segment that is appended to."""

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Final
from weakref import WeakSet

from purgatory_async import PurgatoryError
from purgatory_async.journal.segments import Segment

__all__ = ["DirectoryLock", "JournalError", "SegmentFile"]

_LOCK: Final = ".lock"
_PRIVATE: Final = 0o600


class JournalError(PurgatoryError):
    """A journal cannot be kept here, or cannot promise that a record is safe."""


class DirectoryLock:
    """One writer at a time in a directory; the lock goes with the process, however that ends.

    A process that it forks has no part in it, and may live on.

    Args:
        directory: Is made if it is missing, for its owner only.

    Raises:
        JournalError: Another process writes there, it is no directory, or anybody could write there.
    """

    def __init__(self, directory: Path) -> None:
        try:
            made = [each for each in (directory, *directory.parents) if not each.exists()]
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for each in made:
                sync_directory(each.parent)
            mode = directory.stat().st_mode
            if mode & stat.S_IWOTH:
                raise JournalError(
                    f"anybody can write to the journal's directory {directory} (mode {mode & 0o7777:o}); "
                    f"run: chmod o-w {directory}"
                )
            self._file = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        except OSError as error:
            raise JournalError(
                f"cannot keep a journal in {directory}: {error.strerror}; "
                "name a directory of your own, which is made if it is missing"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise JournalError(
                f"another process (id {holder}) keeps its journal in {directory}; give each its own directory"
            ) from None
        # For the sentence above only; a journal may start on a full disk, and wait for space.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.write(self._file, b"%d\n" % os.getpid())
        _held.add(self)

    def release(self) -> None:
        """Let others write there."""
        _held.discard(self)
        os.close(self._file)


_held: WeakSet[DirectoryLock] = WeakSet()


def _let_go_in_child() -> None:
    # The lock is that of the open file, which parent and child share: it would stay until both have ended.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


class SegmentFile:
    """The segment that grows, by whole lines.

    A write that stops half way (a full disk takes what fits) is taken back to the end of the last whole line, so no
    half record is ever followed by another one. Writes are not buffered here: a buffer would say yes on a full disk
    and fail when it is closed.

    Args:
        segment: The file to make; it must not be there.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, segment: Segment) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.segment: Final = segment
        self.length = 0
        self._torn = False  # there may be half a record at the end
        self._file = os.open(segment.path, flags, _PRIVATE)
        try:
            sync_directory(segment.path.parent)
        except OSError:
            self.close()
            raise

    def append(self, lines: bytes | bytearray) -> None:
        """Write whole lines: all of them, or as many as fit; ``length`` grows by what was written.

        Raises:
            OSError: There is no space for all of them, or worse; the file ends with a whole line.
        """
        if self._torn:
            os.ftruncate(self._file, self.length)  # what could not be taken back when it failed
        self._torn = True
        written = 0
        try:
            with memoryview(lines) as view:
                while written < len(lines):
                    with view[written:] as rest:
                        written += os.write(self._file, rest)
        except OSError:
            self.length += lines.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._file, self.length)
            raise
        self._torn = False
        self.length += written

    def sync(self) -> None:
        """Wait until what was appended is on the disk.

        Raises:
            OSError: It may be lost. Asking again would be answered yes although it is: the system forgets what it
                could not write.
        """
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file; an empty one is removed. What was synced is safe, whatever the system says to this."""
        with contextlib.suppress(OSError):
            os.close(self._file)
        if not self.length:
            with contextlib.suppress(OSError):
                self.segment.path.unlink()


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
