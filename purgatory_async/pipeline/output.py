"""Where results go: under a name that readers skip, and under their own when they are whole and on the disk."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from purgatory_async.pipeline.refusal import Refused

if TYPE_CHECKING:  # what is made without Spark goes somewhere, too
    from pyspark.sql import DataFrame

__all__ = ["check_fresh", "spark_writes", "staged"]


def check_fresh(path: Path) -> None:
    """Make sure that nobody's results are in the way, and that there is a place for new ones.

    Args:
        path: A directory that is not there yet, or is empty.

    Raises:
        Refused: Something is there, or nothing could be put there.
    """
    if path.is_symlink() or path.exists():
        if not path.is_dir():
            raise Refused(f"--out {path} is there and is no directory; name one that is new or empty")
        if any(path.iterdir()):
            raise Refused(
                f"--out {path} is not empty, and nothing in it is overwritten; name another directory"
            )
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise Refused(f"--out {path} cannot be made: {above} is no directory that one may write to")


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Lend a directory beside the final one, which takes its place when the block ends well.

    Everything in it is on the disk before it is renamed. When the block fails it is removed, and nothing is there under
    the final name; a process that is killed leaves it behind, under a name that starts with a dot.

    Args:
        path: Where the results are in the end; not there yet, or an empty directory.

    Yields:
        The directory to write to.

    Raises:
        OSError: It cannot be made or put into place.
    """
    final = path.resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    stage = final.parent / f".{final.name}-{secrets.token_hex(4)}"
    stage.mkdir()
    try:
        yield stage
        _sync(stage)
        stage.rename(final)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    _sync_directory(final.parent)


def spark_writes(frame: "DataFrame", path: Path) -> None:
    """Write a table as Parquet into a staged directory.

    Args:
        frame: What to write; it is computed now.
        path: A directory that is not there yet. Spark's workers must see it as this process does.
    """
    # No URI, which Spark would not decode; but a cluster's own file system may be another.
    frame.write.parquet(f"file://{path.absolute()}")


def _sync(directory: Path) -> None:
    """Wait until all that is under a directory is on the disk, from the leaves up."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                os.fsync(file.fileno())
        _sync_directory(Path(folder))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
