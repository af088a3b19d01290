"""One run at a time on a checkpoint."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from purgatory_async.pipeline.refusal import Refused

__all__ = ["LOCK", "held"]

LOCK: Final = ".lock"
"""The file by which a directory is held."""


@contextmanager
def held(checkpoint: Path, who: str) -> Iterator[None]:
    """Make a checkpoint's directory if it is not there, and hold it; the hold ends with the process, however it ends.

    Args:
        checkpoint: The directory.
        who: What else may hold it, such as ``stream``.

    Raises:
        Refused: Another one holds it, or it cannot be made.
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
