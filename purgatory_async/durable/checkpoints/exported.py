"""The file ``.export`` of an exported journal: how far it is, and the state of the log there.

A line of JSON, then a checkpoint of the fold, which has its own digests. It is replaced as a whole.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from purgatory_async.cluster import LogRefused
from purgatory_async.durable.checkpoints.recorder import Run
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.fold import Fold, FoldError, LevelError
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.journal import JournalError
from purgatory_async.journal.segments import sync_directory

NAME: Final = ".export"
_PRIVATE: Final = 0o600
_WHOLE: Final = 1 << 62  # one part: it is in one file anyway


class _Head(Struct):
    epoch: str
    position: int
    run: Run


class Exported:
    """What the last export left.

    Attributes:
        epoch: The epoch of the log.
        position: The last one whose records were written.
        run: The run to continue.
    """

    def __init__(self, path: Path, head: _Head, state: bytes) -> None:
        self.epoch: Final = head.epoch
        self.position: Final = head.position
        self.run: Final = head.run
        self._path: Final = path
        self._state: Final = state

    @classmethod
    def read(cls, directory: Path) -> "Exported | None":
        """Read it; None if there was no export.

        Raises:
            JournalError: It cannot be read.
        """
        path = directory / NAME
        try:
            line, _, state = path.read_bytes().partition(b"\n")
            return cls(path, msgspec.json.decode(line, type=_Head), state)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"cannot read {path}: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise _damaged(path, error) from None

    def fold(self, make: Callable[[int], Fold]) -> Fold:
        """Return the state; ``make`` as for `restored`.

        Raises:
            JournalError: It is damaged.
            LogRefused: It is of a level that needs a newer program.
        """
        try:
            return restored([self._state], make)
        except LevelError as error:
            raise LogRefused(f"{self._path}: {error}") from error
        except FoldError as error:
            raise _damaged(self._path, error) from error

    @staticmethod
    def write(directory: Path, epoch: str, run: Run, fold: Fold) -> None:
        """Replace it by the present state. O(n).

        Raises:
            JournalError: It cannot be written; the one before stays.
        """
        path = directory / NAME
        waiting = directory / f"{NAME}.new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(waiting, flags, _PRIVATE), "wb") as file:
                file.write(msgspec.json.encode(_Head(epoch, fold.position, run)) + b"\n")
                for part in parts(fold, _WHOLE):
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            waiting.replace(path)
            sync_directory(directory)
        except OSError as error:
            raise JournalError(f"cannot write {path}: {error.strerror}") from None


def _damaged(path: Path, error: Exception) -> JournalError:
    return JournalError(
        f"{path} is damaged: {error}; export to another directory, or delete this one's segments and {path.name}"
    )
