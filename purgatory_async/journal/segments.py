"""The files of a journal: flat, named ``<run_id>.<node>.<000001>.jsonl``, later ``….parquet``.

A segment is JSON lines while it grows. A full one becomes Parquet: written under a name that starts with a dot, then
renamed; then the JSON lines are removed. So while both exist, the Parquet file is complete and counts. Names that
start with ``.`` or ``_`` are never read. One process writes to a directory at a time.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from weakref import WeakSet

from purgatory_async import PurgatoryError

__all__ = ["JournalError", "Segment", "is_url", "list_segments", "segments_among"]

_NAME: Final = re.compile(
    r"(?P<run_id>[^._][^.]*)\.(?P<node>[^.]+)\.(?P<number>\d{6,})\.(?P<format>jsonl|parquet)"
)
# Two letters or more, for one is a drive; pathlib keeps one slash of two.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LOCK: Final = ".lock"
_PRIVATE: Final = 0o600
RUN_FORMAT: Final = "%Y%m%dT%H%M%S"
"""How the name of a run begins: with its start, in UTC."""
LAST_SECONDS: Final = 10.0
# The process imports this package, installed or not, and (-P) nothing from the working directory, which may hold a
# hostile pyarrow.py.
_ROOT: Final = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file of a journal; ``number`` counts from 1 in each run and node."""

    run_id: str
    node: str
    number: int
    path: Path

    @property
    def live(self) -> bool:
        """Whether it is JSON lines, which may still grow."""
        return self.path.suffix == ".jsonl"

    @property
    def name(self) -> str:
        """The file's name without its ending; it stays the same in Parquet."""
        return self.path.stem

    @classmethod
    def of(cls, path: Path) -> "Segment | None":
        """The segment that a path names; None for any other file."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        return cls(match["run_id"], match["node"], int(match["number"]), path)

    @classmethod
    def named(cls, directory: Path, run_id: str, node: str, number: int) -> "Segment":
        """A segment of JSON lines, whether or not its file exists."""
        return cls(run_id, node, number, directory / f"{run_id}.{node}.{number:06d}.jsonl")

    @property
    def lines(self) -> Path:
        """Its file while it is JSON lines."""
        return self.path.with_suffix(".jsonl")

    @property
    def parquet(self) -> Path:
        """Its file once it is Parquet."""
        return self.path.with_suffix(".parquet")


def list_segments(directory: Path) -> list[Segment]:
    """List the segments of a journal by run, node and number; one that exists in both forms counts as Parquet.

    The kernel lists a long directory in several steps, and can miss a segment that is renamed between two of them.
    The next listing has it, so this takes two.

    Raises:
        OSError: The directory cannot be read.
    """
    return sorted((_listed(directory) | _listed(directory)).values())


def _listed(directory: Path) -> dict[str, Segment]:
    return segments_among(directory.iterdir())


def segments_among(paths: Iterable[Path]) -> dict[str, Segment]:
    """Choose the segments among some paths, by name; one that exists in both forms counts as Parquet."""
    found = [segment for path in paths if (segment := Segment.of(path)) is not None]
    # Of two segments with one name the latter stays: Parquet.
    return {segment.name: segment for segment in sorted(found, key=lambda segment: not segment.live)}


def is_url(path: Path | str) -> bool:
    """Whether a path is a URL, which must not become a local directory of that name.

    >>> is_url("s3a://bucket/x"), is_url(Path("s3a://bucket/x")), is_url("a:b/c")
    (True, True, False)
    """
    return _URL.match(str(path)) is not None


class JournalError(PurgatoryError):
    """The journal cannot use its directory, or cannot promise that a record is safe."""


class DirectoryLock:
    """Lock a directory for one writer until the process ends; processes that it forks do not hold the lock.

    Args:
        directory: Created if missing, for its owner only.

    Raises:
        JournalError: Another process writes there, it is not a local directory, or it is world-writable.
    """

    def __init__(self, directory: Path) -> None:
        if is_url(directory):
            raise JournalError(
                f"a journal must be in a local directory, got {str(directory)!r}; copy its full segments to a store"
            )
        try:
            made = [each for each in (directory, *directory.parents) if not each.exists()]
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for each in made:
                sync_directory(each.parent)
            mode = directory.stat().st_mode
            if mode & stat.S_IWOTH:
                raise JournalError(
                    f"the journal's directory {directory} must not be world-writable, got mode {mode & 0o7777:o}; "
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
        # Only for the message above; a journal may start on a full disk and wait for space.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.write(self._file, b"%d\n" % os.getpid())
        _held.add(self)

    def release(self) -> None:
        """Release the lock."""
        _held.discard(self)
        os.close(self._file)


_held: WeakSet[DirectoryLock] = WeakSet()


def _let_go_in_child() -> None:
    # Parent and child share the open file, so its lock would last until both have ended.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


class SegmentFile:
    """Create a segment and append whole lines to it.

    A partial write (a full disk takes what fits) is truncated to the last whole line, so no record ever follows half
    a record. Writes are unbuffered: a buffer would accept data on a full disk and fail when it is closed.

    Raises:
        OSError: The file exists or cannot be created.
    """

    def __init__(self, segment: Segment) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.segment: Final = segment
        self.length = 0
        self._torn = False  # the file may end with half a record
        self._file = os.open(segment.path, flags, _PRIVATE)
        try:
            sync_directory(segment.path.parent)
        except OSError:
            self.close()
            raise

    def append(self, lines: bytes | bytearray) -> None:
        """Write whole lines, as many as fit; ``length`` grows by the bytes written.

        Raises:
            OSError: Not all were written; the file ends with a whole line.
        """
        if self._torn:
            os.ftruncate(self._file, self.length)  # truncating failed the last time
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
        """Wait until the appended lines are on the disk.

        Raises:
            OSError: They may be lost. A second sync would succeed all the same: the kernel forgets failed writes.
        """
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file, and remove it if empty. Errors are ignored: what was synced is safe."""
        with contextlib.suppress(OSError):
            os.close(self._file)
        if not self.length:
            with contextlib.suppress(OSError):
                self.segment.path.unlink()


def sync_directory(directory: Path) -> None:
    """Wait until a directory's entries are on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Sealer:
    """Queue segments, and turn them into Parquet in processes, one at a time.

    One thread uses it at a time: the opening thread, then the writer thread, then the closing thread. ``on_trouble``
    gets one sentence for each failure.
    """

    def __init__(self, directory: Path, on_trouble: Callable[[str], None]) -> None:
        # Without pyarrow segments stay JSON lines, which every reader takes as well.
        self._possible = has_pyarrow()
        self._on_trouble = on_trouble
        self._waiting: deque[Segment] = deque()
        self._process: subprocess.Popen[str] | None = None
        self._segment: Segment | None = None  # of the process
        _tidy(directory)

    @property
    def busy(self) -> bool:
        """Whether a segment is being sealed or waits to be."""
        return self._process is not None or bool(self._waiting)

    @property
    def present(self) -> Segment | None:
        """The segment that is being sealed."""
        return None if self._process is None else self._segment

    def add(self, segment: Segment) -> None:
        """Queue a segment."""
        if self._possible:
            self._waiting.append(segment)

    def look_after(self) -> None:
        """Collect the process that has ended, and start the next one if none runs."""
        if self._process is not None and self._process.poll() is not None:
            self._end(self._process)
        if self._process is None and self._waiting:
            self._segment = segment = self._waiting.popleft()
            if not segment.path.exists():
                return  # removed since
            try:
                self._process = start_module("rotation", segment.path, stdout=subprocess.DEVNULL)
            except OSError as error:
                self._on_trouble(
                    f"{segment.path} stays as it is until the next start, no process can be made: {error.strerror}"
                )

    def finish(self) -> None:
        """Wait up to ten seconds for the running process; the next start seals what is left."""
        self._waiting.clear()
        if self._process is None:
            return
        try:
            self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end(self._process)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        _, said = process.communicate()
        if process.returncode > 0:
            self._on_trouble(f"a segment of the journal was not turned into Parquet: {said.strip()}")
        self._process = None


def _tidy(directory: Path) -> None:
    """Remove what a killed process left: a partial Parquet file, or the lines beside a complete one."""
    for path in directory.glob(".*.parquet"):
        path.unlink(missing_ok=True)
    for path in directory.glob("*.parquet"):
        segment = Segment.of(path)
        if segment is not None:
            segment.lines.unlink(missing_ok=True)


def has_pyarrow() -> bool:
    """Whether Parquet can be written and read, in a process of its own."""
    return importlib.util.find_spec("pyarrow") is not None


def start_module(name: str, argument: Path, *, stdout: int | IO[str]) -> "subprocess.Popen[str]":
    """Start a module of this package in a process of its own.

    Raises:
        OSError: No process can be made.
    """
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package, a file that was listed
        [sys.executable, "-P", "-m", f"purgatory_async.journal.{name}", str(argument)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
        },
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C must reach only the service, which then waits for this process
    )
