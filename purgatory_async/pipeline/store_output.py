"""Writes results to a store, where nothing can be renamed: ``_SUCCESS`` is written last of all.

Without it what is there is not a result. A run begins with an object ``_unfinished-<id>`` and removes it at the end.
Stores list an object as soon as it is written, so of two runs at once each sees that of the other, and at most one
goes on. A killed process leaves its object behind, and the directory is refused from then on.
"""

import io
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from purgatory_async.pipeline.locations import StorePath
from purgatory_async.pipeline.refusal import Refused

__all__ = ["SUCCESS", "check_fresh_in_store", "finished_in_store"]

SUCCESS: Final = "_SUCCESS"
"""The object without which a directory of a store has no results."""

_UNFINISHED: Final = "_unfinished-"


def check_fresh_in_store(out: StorePath) -> None:
    """Check that a directory of a store is new or empty; raises `Refused` if it is not, or cannot be listed."""
    names = _names(out)
    if any(name.startswith(_UNFINISHED) for name in names):
        raise Refused(
            f"--out {out} has unfinished results: another run writes there, or was killed; "
            "name another directory, or remove this one"
        )
    if names:
        raise Refused(f"--out {out} is not empty, and nothing in it is overwritten; name another directory")


def _names(out: StorePath) -> list[str]:
    try:
        return [entry.name for entry in out.iterdir()]
    except FileNotFoundError:
        if out.exists():
            raise Refused(
                f"--out {out} must be a directory, got an object; name one that is new or empty"
            ) from None
        return []
    except OSError as error:
        raise Refused(f"--out {out} cannot be listed: {error.strerror}") from None


@contextmanager
def finished_in_store(out: StorePath) -> Iterator[Path]:
    """Yield a local directory, whose files go to a store with ``_SUCCESS`` when the block succeeds.

    When it fails, the directory in the store is removed.

    Raises:
        Refused: The store does not take the first object, or another run writes there.
        OSError: It does not take another.
    """
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
            folder = Path(scratch, "results")
            folder.mkdir()
            yield folder
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                with path.open("rb") as content:
                    (out / path.relative_to(folder).as_posix()).put(content)
        claim.unlink()
        (out / SUCCESS).put(io.BytesIO())
    except BaseException:
        with suppress(OSError):
            out.remove()
        raise
