"""Writes results under a name that readers skip, and moves them into place only once complete and on the disk."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from purgatory_async.pipeline.refusal import Refused

__all__ = ["check_fresh", "checkpoint_path", "spark_path", "spark_writes", "staged", "sync"]

if TYPE_CHECKING:  # jobs without Spark use this module, too
    from pyspark.sql import DataFrame


def check_fresh(path: Path) -> None:
    """Check that results can go to ``path``: a directory that is new or empty, in a writable place.

    Raises:
        Refused: They cannot.
    """
    if path.is_symlink() or path.exists():
        if not path.is_dir():
            raise Refused(f"--out {path} must be a directory, got a file; name one that is new or empty")
        if any(path.iterdir()):
            raise Refused(
                f"--out {path} is not empty, and nothing in it is overwritten; name another directory"
            )
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise Refused(f"--out {path} cannot be made: {above} is not a writable directory")


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a directory to write to, and rename it to ``path`` when the block succeeds.

    Everything in it is on the disk before the rename. When the block fails, it is removed, and ``path`` is untouched.
    A killed process leaves it behind, under a name that starts with a dot.

    Args:
        path: The final directory; new or empty.

    Raises:
        OSError: The directory cannot be made or renamed.
    """
    final = path.resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    stage = final.parent / f".{final.name}-{secrets.token_hex(4)}"
    stage.mkdir()
    try:
        yield stage
        _sync_all(stage)
        stage.rename(final)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    sync(final.parent)


def spark_writes(frame: "DataFrame", path: Path) -> None:
    """Compute a table, and write it as Parquet to a new directory that Spark's workers see as this process does."""
    frame.write.parquet(checkpoint_path(path))


def _sync_all(directory: Path) -> None:
    """Sync everything under a directory, from the leaves up."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))


def sync(path: Path) -> None:
    """Put a file, or the names in a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def spark_path(path: Path) -> str:
    r"""A local path for Spark's readers, which expand patterns in names.

    >>> spark_path(Path("/data/run [7]/100%"))
    'file:///data/run \\[7\\]/100%'
    """
    return "".join(f"\\{letter}" if letter in r"\*?[]{}" else letter for letter in checkpoint_path(path))


def checkpoint_path(path: Path) -> str:
    """A local path for a checkpoint, which Spark does not unescape: a URI would be escaped twice.

    >>> checkpoint_path(Path("/data/run [7]/100%"))
    'file:///data/run [7]/100%'
    """
    return f"file://{path.absolute()}"
