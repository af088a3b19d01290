"""Ties a checkpoint to its settings and results, and lets one run at a time use them."""

import fcntl
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.pipeline.distributed.inputs import NO_OPERATIONS
from purgatory_async.pipeline.refusal import Refused

__all__ = [
    "LOCK",
    "Identity",
    "check_checkpoint",
    "check_pair",
    "claimed",
    "claimed_checkpoint",
    "held",
]

LOCK: Final = ".lock"
"""The lock file in a directory."""

FORMAT: Final = 2  # since the operations are one source of the query and no longer two

_SETTINGS: Final = "purgatory.json"  # of a distributed purgatory, in its checkpoint
_PAIR: Final = ".purgatory-stream.json"  # of a stream, in its checkpoint and its results
_OURS: Final = (LOCK, _PAIR, f".{_PAIR}")


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


def check_pair(checkpoint: Path, out: Path, window_ns: int) -> None:
    """Check that a checkpoint and results belong together, or are both new.

    Args:
        checkpoint: Directory of the progress; may be missing.
        out: Directory of the results; may be missing.
        window_ns: The windows' width.

    Raises:
        Refused: The two do not belong together, or the windows had another width.
    """
    begun, made = _read_pair(checkpoint), _read_pair(out)
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


def _read_pair(directory: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((directory / _PAIR).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Refused(f"{directory / _PAIR} cannot be read: {error}; name another directory") from None
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
        claim = _read_pair(checkpoint) or {"id": secrets.token_hex(8), "window_ns": window_ns}
        for directory in (checkpoint, out):
            _put(directory / _PAIR, json.dumps(claim).encode())
        yield


@dataclass(frozen=True, slots=True)
class Identity:
    """The settings that cannot change while a checkpoint lives, as its state depends on them.

    Attributes:
        operations: Their directory.
        signals: Likewise.
        out: Directory of the outcomes.
        time: ``event`` or ``processing``.
        shards: Of the state.
        delay: Seconds.
        keep: Seconds.
        format: Of the state.
    """

    operations: str
    signals: str
    out: str
    time: str
    shards: int
    delay: float
    keep: float
    format: int = FORMAT

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file of `claimed_checkpoint`.

        Raises:
            OSError: It is missing.
            ValueError, TypeError: It has other contents.
        """
        return cls(**json.loads(path.read_bytes()))


def check_checkpoint(checkpoint: Path, out: Path, identity: Identity) -> None:
    """Check that a run continues a checkpoint of its own, or that checkpoint and outcomes are both new.

    Args:
        checkpoint: Its directory; may be missing.
        out: Directory of the outcomes.
        identity: Of this run.

    Raises:
        Refused: The checkpoint has other settings or another maker, or outcomes exist without it.
    """
    try:
        made_with = Identity.read(checkpoint / _SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        _check_fresh(checkpoint, out)
        return
    except (OSError, ValueError, TypeError) as error:
        raise Refused(
            f"--checkpoint {checkpoint}: {_SETTINGS} cannot be read: {error}; name another directory"
        ) from None
    if made_with.format != identity.format:
        raise Refused(
            f"--checkpoint {checkpoint} must be of format {identity.format}, got {made_with.format}; finish it with "
            "the version that made it, or begin anew with another --checkpoint and another --out"
        )
    for field in fields(Identity):
        then, now = getattr(made_with, field.name), getattr(identity, field.name)
        if then != now:
            raise Refused(
                f"--checkpoint {checkpoint} was made with --{field.name} {then}, not {now}; continue with that, "
                "or begin anew with another --checkpoint and another --out"
            )


def _check_fresh(checkpoint: Path, out: Path) -> None:
    if not checkpoint.is_dir() and (checkpoint.exists() or checkpoint.is_symlink()):
        raise Refused(f"--checkpoint {checkpoint} is not a directory; name one that is new or empty")
    if checkpoint.is_dir() and any(not path.name.startswith(".") for path in checkpoint.iterdir()):
        raise Refused(
            f"--checkpoint {checkpoint} was not made by this command; name one that is new or empty"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        # Spark would mistake the batches of a new checkpoint for those already written, and skip them.
        raise Refused(
            f"--out {out} is not empty and --checkpoint {checkpoint} is new; continue with the checkpoint that belongs "
            "to it, or name another --out"
        )


@contextmanager
def claimed_checkpoint(checkpoint: Path, identity: Identity) -> Iterator[Path]:
    """Lock the checkpoint during the block, until the process ends at the latest, and record its settings and a start.

    After a restart, Spark makes no batch without input. Timers that have become due would wait for one, and a run with
    ``--available-now`` would end without them. So each run begins with an empty file to read.

    Yields:
        A directory to read with the operations; it has a file for each start.

    Raises:
        Refused: Another run holds the lock, or the directory cannot be made.
    """
    with held(checkpoint, "run"):
        _put(checkpoint / _SETTINGS, (json.dumps(asdict(identity), indent=2) + "\n").encode())
        starts = checkpoint / "starts"
        starts.mkdir(exist_ok=True)
        sink = pa.BufferOutputStream()
        pq.write_table(NO_OPERATIONS, sink)
        _put(starts / f"{time.time_ns()}.parquet", sink.getvalue().to_pybytes())
        yield starts


def _put(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.rename(path)
