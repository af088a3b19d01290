"""The locks of a SQLite log: for its writers, with the process that holds it, and for its checkpoints."""

import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from purgatory_async.clock import monotonic
from purgatory_async.cluster.causes import cause_of
from purgatory_async.cluster.log import LogUnavailable

__all__ = ["holder_of", "sole", "take_lock"]

_LOOK_S: Final = 0.002
_LOCKS: Final = Path("/proc/locks")


def holder_of(path: Path) -> str | None:
    """Return "process PID (NAME)" of another process that locks a SQLite file for writing; None if none is known.

    The files are not opened: to close them again would release SQLite's own locks.
    """
    inodes = set[str]()
    for name in (f"{path}.lock", f"{path}-shm", path):
        with suppress(OSError):
            inodes.add(str(Path(name).stat().st_ino))
    with suppress(OSError, ValueError):
        for line in _LOCKS.read_text(encoding="ascii").splitlines():
            _, kind, _, mode, pid, file, *_ = line.split()  # a waiting process has "->" for its kind
            if (
                mode == "WRITE"
                and kind != "->"
                and file.rpartition(":")[2] in inodes
                and pid != str(os.getpid())
            ):
                return f"process {pid} ({_name_of(pid)})" if pid != "0" else "a process of another container"
    return None


def _name_of(pid: str) -> str:
    with suppress(OSError):
        return Path("/proc", pid, "comm").read_text(encoding="utf-8", errors="replace").strip()
    return "?"


def take_lock(lock: int, path: Path, wait_s: float) -> None:
    """Take the lock of a SQLite file by its descriptor, waiting a while: a process may be stopped while it has it.

    Raises:
        LogUnavailable: Another one has it all the time.
    """
    deadline = monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                holder = holder_of(path) or "another process"
                raise LogUnavailable(
                    f"{path} is not usable: {holder} holds its lock", cause="locked"
                ) from None
        time.sleep(_LOOK_S)


@asynccontextmanager
async def sole(path: str) -> AsyncIterator[bool]:
    """Try to take the lock of a log's checkpoints, a file beside it; yields whether it was free.

    Raises:
        LogUnavailable: The file cannot be opened.
    """
    path = f"{path}.checkpoint"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnavailable(f"{path} is not usable: {error.strerror}", cause=cause_of(error)) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)
