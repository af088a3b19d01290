"""Writes results so that nothing incomplete passes for a result.

On this machine they are written under a name that readers skip, and moved into place only once complete and on the
disk. A store cannot rename, so ``_SUCCESS`` is written last of all, and without it what is there is not a result. A run
begins with an object ``_unfinished-<id>`` there and removes it at the end. Stores list an object as soon as it is
written, so of two runs at once each sees the other's object, and at most one goes on. A killed process leaves its
object behind, and the directory is refused from then on.
"""

import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.locations import Location, StorePath

_SUCCESS: Final = "_SUCCESS"
_UNFINISHED: Final = "_unfinished-"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a job writes its results: ``folder`` is for the files of this process, as pages, figures and small tables.

    ``tables`` is for Spark's workers, which must see it as this process does: the same directory, or one in a store.
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
    names = _names(out)
    if any(name.startswith(_UNFINISHED) for name in names):
        raise Refused(
            f"--out {out} has unfinished results: another run writes there, or was killed; "
            "name another directory, or remove this one"
        )
    if names:
        raise Refused(f"--out {out} is not empty, and nothing in it is overwritten; name another directory")
    if isinstance(out, Path):
        check_makeable("--out", out)


def _names(out: Location) -> list[str]:
    try:
        return [entry.name for entry in out.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        if out.exists() or (isinstance(out, Path) and out.is_symlink()):
            kind = "a file" if isinstance(out, Path) else "an object"
            raise Refused(
                f"--out {out} must be a directory, got {kind}; name one that is new or empty"
            ) from None
        return []
    except OSError as error:
        raise Refused(f"--out {out} cannot be listed: {error.strerror}") from None


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
    """Yield a stage to write to, whose files become the results in a new or empty ``out`` when the block succeeds.

    On this machine everything in it is on the disk before it is renamed to ``out``. When the block fails, it is
    removed, and ``out`` is untouched. A killed process leaves it behind, under a name that starts with a dot.

    Raises:
        OSError: The directory cannot be made or renamed, or the store does not take an object.
        Refused: The store does not take the first object, or another run writes there.
    """
    if not isinstance(out, Path):
        with _staged_in_store(out) as folder:
            yield Stage(folder, out)
        return
    final = out.resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    stage = final.parent / f".{final.name}-{secrets.token_hex(4)}"
    stage.mkdir()
    try:
        yield Stage(stage, stage)
        for place, _, names in os.walk(stage, topdown=False):
            for name in (*names, ""):
                sync(Path(place, name))
        stage.rename(final)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    sync(final.parent)


@contextmanager
def _staged_in_store(out: StorePath) -> Iterator[Path]:
    """Yield a local directory, whose files go to the store when the block succeeds; else remove what is there."""
    claim = out / f"{_UNFINISHED}{secrets.token_hex(4)}"
    try:
        claim.put(io.BytesIO())
    except OSError as error:
        raise Refused(f"--out {out} cannot be written: {error.strerror}") from None
    if set(_names(out)) != {claim.name}:
        claim.unlink()
        raise Refused(f"--out {out} is written by another run at this moment; name another directory")
    try:
        with TemporaryDirectory(prefix="purgatory-") as scratch:
            yield (folder := Path(scratch))
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                with path.open("rb") as content:
                    (out / path.relative_to(folder).as_posix()).put(content)
        claim.unlink()
        (out / _SUCCESS).put(io.BytesIO())
    except BaseException:
        with suppress(OSError):
            out.remove()
        raise


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
