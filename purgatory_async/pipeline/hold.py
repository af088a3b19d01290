"""A lock that allows one run at a time on a checkpoint."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from purgatory_async.pipeline.refusal import Refused

__all__ = ["LOCK", "held"]

LOCK: Final = ".lock"
"""The lock file in a directory."""


@contextmanager
def held(checkpoint: Path, who: str) -> Iterator[None]:
    """Create a checkpoint's directory if missing, and lock it; the lock ends with the block or the process.

    Args:
        checkpoint: The directory.
        who: The kind of run for the message, such as ``stream``.

    Raises:
        Refused: Another run holds the lock, or the directory cannot be made.
    """
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        lock = (checkpoint / LOCK).open("w")
    except OSError as error:
        raise Refused(f"{error.filename} cannot be made: {error.strerror}; name another directory") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"--checkpoint {checkpoint} is in use by another {who}; stop that one, or name another"
            ) from None
        yield
