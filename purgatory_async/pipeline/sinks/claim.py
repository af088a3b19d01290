"""Ties a checkpoint to its results, and lets one stream at a time use them."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from purgatory_async.pipeline.hold import LOCK, held
from purgatory_async.pipeline.refusal import Refused

__all__ = ["check_pair", "claimed"]

_NAME: Final = ".purgatory-stream.json"
_OURS: Final = (LOCK, _NAME, f"{_NAME}.new")


def check_pair(checkpoint: Path, out: Path, window_ns: int) -> None:
    """Check that a checkpoint and results belong together, or are both new.

    Args:
        checkpoint: Directory of the progress; may be missing.
        out: Directory of the results; may be missing.
        window_ns: The windows' width.

    Raises:
        Refused: The two do not belong together, or the windows had another width.
    """
    begun, made = _read(checkpoint), _read(out)
    if begun is None and made is not None:
        raise Refused(f"--out {out} belongs to another checkpoint than {checkpoint}; continue with that one")
    if begun is None:
        _check_empty(
            "--checkpoint", checkpoint, "was not made by this command; name one that is new or empty"
        )
        _check_empty(
            "--out", out, "has other results; continue with their --checkpoint, or name another directory"
        )
        return
    if begun["window_ns"] != window_ns:
        raise Refused(
            f"--checkpoint {checkpoint} was made with --window {begun['window_ns'] / 1e9:g}, not {window_ns / 1e9:g}; "
            "continue with that, or begin anew with another --checkpoint and another --out"
        )
    if made is None:
        _check_empty("--out", out, "has other results; name the one that belongs to the checkpoint")
        if (checkpoint / "state").exists():
            raise Refused(
                f"--checkpoint {checkpoint} has results elsewhere, not in --out {out}; name the --out that belongs to "
                "it, or begin anew with another --checkpoint"
            )
    elif made["id"] != begun["id"]:
        raise Refused(f"--out {out} does not belong to --checkpoint {checkpoint}; name the one that does")


def _read(directory: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((directory / _NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Refused(f"{directory / _NAME} cannot be read: {error}; name another directory") from None
    return found


def _check_empty(option: str, directory: Path, complaint: str) -> None:
    if directory.is_dir():
        if any(path.name not in _OURS for path in directory.iterdir()):
            raise Refused(f"{option} {directory} {complaint}")
    elif directory.exists() or directory.is_symlink():
        raise Refused(f"{option} {directory} is not a directory; name one that is new or empty")


@contextmanager
def claimed(checkpoint: Path, out: Path, window_ns: int) -> Iterator[None]:
    """Lock both directories for one stream until the process ends, and record that they belong together.

    Raises:
        Refused: Another stream holds them, or they cannot be made.
    """
    with held(checkpoint, "stream"):
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"{out} cannot be made: {error.strerror}; name another directory") from None
        check_pair(checkpoint, out, window_ns)
        claim = _read(checkpoint) or {"id": secrets.token_hex(8), "window_ns": window_ns}
        for directory in (checkpoint, out):
            _write(directory, claim)
        yield


def _write(directory: Path, claim: dict[str, Any]) -> None:
    unfinished = directory / f"{_NAME}.new"
    unfinished.write_text(json.dumps(claim), encoding="utf-8")
    unfinished.rename(directory / _NAME)
