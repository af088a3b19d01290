"""Writes results so that nothing incomplete passes for a result.

On this machine they are written under a name that readers skip, and moved into place only once complete and on the
disk. A store cannot rename: see `purgatory_async.pipeline.store_output`.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.refusal import Refused
from purgatory_async.pipeline.store_output import check_fresh_in_store, finished_in_store

__all__ = ["Stage", "check_fresh", "check_makeable", "checkpoint_path", "spark_path", "staged", "sync"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a job writes its results.

    Attributes:
        folder: For the files of this process: pages, figures, small tables.
        tables: For those of Spark's workers, too, which must see it as this process does: the same directory, or one
            in a store.
    """

    folder: Path
    tables: Location

    @classmethod
    def of(cls, out: "Path | Stage") -> "Stage":
        """The stage, or one of an empty directory."""
        return out if isinstance(out, Stage) else cls(out, out)


def check_fresh(out: Location) -> None:
    """Check that results can go to ``out``: a directory that is new or empty, in a writable place.

    Raises:
        Refused: They cannot.
    """
    if not isinstance(out, Path):
        check_fresh_in_store(out)
        return
    if out.is_symlink() or out.exists():
        if not out.is_dir():
            raise Refused(f"--out {out} must be a directory, got a file; name one that is new or empty")
        if any(out.iterdir()):
            raise Refused(
                f"--out {out} is not empty, and nothing in it is overwritten; name another directory"
            )
    check_makeable("--out", out)


def check_makeable(option: str, directory: Path) -> None:
    """Check that a directory of an option is writable, or can be made with those above it.

    Raises:
        Refused: It is not, and cannot.
    """
    path = directory.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise Refused(f"{option} {directory} cannot be made: {there} is not a writable directory")


@contextmanager
def staged(out: Location) -> Iterator[Stage]:
    """Yield a stage to write to, whose files become the results in ``out`` when the block succeeds.

    On this machine everything in it is on the disk before it is renamed to ``out``. When the block fails, it is
    removed, and ``out`` is untouched. A killed process leaves it behind, under a name that starts with a dot.

    Args:
        out: The final directory; new or empty.

    Raises:
        OSError: The directory cannot be made or renamed.
        Refused: The store does not take it, or another run writes there.
    """
    if not isinstance(out, Path):
        with finished_in_store(out) as folder:
            yield Stage(folder, out)
        return
    final = out.resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    stage = final.parent / f".{final.name}-{secrets.token_hex(4)}"
    stage.mkdir()
    try:
        yield Stage(stage, stage)
        _sync_all(stage)
        stage.rename(final)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    sync(final.parent)


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
