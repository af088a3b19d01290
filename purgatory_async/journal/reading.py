"""Lets a job read a journal whose oldest segments are removed meanwhile: what it reads stays until it ends.

A reader locks the directory, shared; a removal waits for it, for at most an hour. A lock ends with its process. On a
file system without such locks neither waits.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from purgatory_async.clock import monotonic

__all__ = ["PATIENCE_S", "Readers", "reading"]

PATIENCE_S: Final = 3600.0


@contextlib.contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Keep the segments of a journal from being removed during the block.

    Raises:
        OSError: The directory cannot be read.
    """
    with _opened(directory) as place:
        with contextlib.suppress(OSError):
            fcntl.flock(place, fcntl.LOCK_SH)
        yield


class Readers:
    """The readers of a journal, for the process that removes its segments."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._waits_since: float | None = None

    @contextlib.contextmanager
    def kept_out(self) -> Iterator[bool]:
        """Keep new readers waiting during the block; yields False while there are some, within their hour.

        Raises:
            OSError: The directory cannot be read.
        """
        with _opened(self._directory) as place:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = monotonic()
                if self._waits_since is None:
                    self._waits_since = now
                yield now - self._waits_since >= PATIENCE_S
                return
            except OSError:
                pass  # no such locks here
            self._waits_since = None
            yield True


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield place
    finally:
        os.close(place)
