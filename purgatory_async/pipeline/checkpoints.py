"""Ties a checkpoint to its settings and results, and lets one run at a time use them."""

import fcntl
import json
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow.parquet as pq

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.damage import BEGIN_ANEW, is_parquet
from purgatory_async.pipeline.distributed.inputs import NO_OPERATIONS
from purgatory_async.pipeline.locations import whole

_LOCK: Final = ".lock"
_FORMAT: Final = 2  # since the operations are one source of the query and no longer two
_SETTINGS: Final = "purgatory.json"  # of a distributed purgatory, in its checkpoint
_PAIR: Final = ".purgatory-stream.json"  # of a stream, in its checkpoint and its results
_STRANGE: Final = "was not made by this command; name one that is new or empty"


@contextmanager
def _held(checkpoint: Path, who: str) -> Iterator[None]:
    """Create a checkpoint's directory if missing, and lock it; the lock ends with the block or the process."""
    with _made():
        checkpoint.mkdir(parents=True, exist_ok=True)
        lock = (checkpoint / _LOCK).open("w")
    with lock:
        _take(lock, checkpoint, who)
        yield


def _take(lock: IO[str], checkpoint: Path, who: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refused(
            f"--checkpoint {checkpoint} is in use by another {who}; stop that one, or name another"
        ) from None


def check_free(checkpoint: Path, who: str) -> None:
    """Check that no other run holds a checkpoint: what it is writing might look like damage.

    Raises:
        Refused: Another run does, ``who``.
    """
    with suppress(FileNotFoundError, NotADirectoryError), (checkpoint / _LOCK).open() as lock:
        _take(lock, checkpoint, who)


@contextmanager
def _made() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(f"{error.filename} cannot be made: {error.strerror}; name another directory") from None


def check_pair(checkpoint: Path, out: Path, window_ns: int) -> None:
    """Check that the directories of a stream's checkpoint and results belong together, or are both new.

    Raises:
        Refused: The two do not belong together, or the windows had another width.
    """
    places = checkpoint / _PAIR, out / _PAIR
    begun, made = (
        _read(place, ("id", "window_ns"), f"copy {other} over it, the two are alike")
        for place, other in (places, places[::-1])
    )
    if begun is None:
        if made is not None:
            raise Refused(
                f"--out {out} belongs to another checkpoint than {checkpoint}; continue with that one"
            )
        _check_empty("--checkpoint", checkpoint, _STRANGE)
        _check_empty(
            "--out", out, "has other results; continue with their --checkpoint, or name another directory"
        )
        return
    _check_same(checkpoint, "window", f"{begun['window_ns'] / 1e9:g}", f"{window_ns / 1e9:g}")
    if made is None:
        _check_empty("--out", out, "has other results; name the one that belongs to the checkpoint")
        if (checkpoint / "state").exists():
            raise Refused(
                f"--checkpoint {checkpoint} has results elsewhere, not in --out {out}; name the --out that belongs to "
                "it, or begin anew with another --checkpoint"
            )
    elif made["id"] != begun["id"]:
        raise Refused(f"--out {out} does not belong to --checkpoint {checkpoint}; name the one that does")


def _read(path: Path, needed: Iterable[str], remedy: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        for name in needed:
            found[name]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Refused(f"{path} is damaged: {error}; {remedy}") from None
    return found


def _check_empty(option: str, directory: Path, complaint: str) -> None:
    """Hidden files do not count: a run that was killed early leaves some."""
    if directory.is_dir():
        if any(not path.name.startswith(".") for path in directory.iterdir()):
            raise Refused(f"{option} {directory} {complaint}")
    elif directory.exists() or directory.is_symlink():
        raise Refused(f"{option} {directory} is not a directory; name one that is new or empty")


def _check_same(checkpoint: Path, option: str, then: Any, now: Any) -> None:
    if then != now:
        raise Refused(
            f"--checkpoint {checkpoint} was made with --{option} {then}, not {now}; continue with that, or {BEGIN_ANEW}"
        )


@contextmanager
def claimed(checkpoint: Path, out: Path, window_ns: int) -> Iterator[None]:
    """Lock both directories for one stream until the process ends, and record that they belong together.

    Raises:
        Refused: Another stream holds them, or they cannot be made.
    """
    with _held(checkpoint, "stream"):
        with _made():
            out.mkdir(parents=True, exist_ok=True)
        check_pair(checkpoint, out, window_ns)
        claim = _read(checkpoint / _PAIR, (), BEGIN_ANEW) or {
            "id": secrets.token_hex(8),
            "window_ns": window_ns,
        }
        for directory in (checkpoint, out):
            _write(directory / _PAIR, claim)
        yield


def _write(path: Path, content: dict[str, Any]) -> None:
    with whole(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Identity:
    """The settings of a distributed purgatory on which its state depends: they cannot change while it lives."""

    operations: str
    signals: str
    out: str
    time: str
    shards: int
    delay: float
    keep: float
    format: int = _FORMAT


def check_checkpoint(checkpoint: Path, out: Path, identity: Identity) -> None:
    """Check that a run continues a checkpoint of its own, or that the directories of both are new.

    Raises:
        Refused: The checkpoint has other settings or another maker, or outcomes exist without it.
    """
    made_with = _read(checkpoint / _SETTINGS, ("format",), BEGIN_ANEW)
    if made_with is None:
        _check_empty("--checkpoint", checkpoint, _STRANGE)
        # Spark would mistake the batches of a new checkpoint for those already written, and skip them.
        remedy = "continue with the checkpoint that belongs to it, or name another --out"
        _check_empty("--out", out, f"is not empty and --checkpoint {checkpoint} is new; {remedy}")
        return
    if made_with.get("format") != identity.format:
        raise Refused(
            f"--checkpoint {checkpoint} must be of format {identity.format}, got {made_with['format']}; finish it "
            f"with the version that made it, or {BEGIN_ANEW}"
        )
    for option, now in asdict(identity).items():
        _check_same(checkpoint, option, made_with.get(option), now)


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
    with _held(checkpoint, "run"):
        _write(checkpoint / _SETTINGS, asdict(identity))
        starts = checkpoint / "starts"
        starts.mkdir(exist_ok=True)
        # A power cut may have emptied one that is yet to be read.
        damaged = (path for path in starts.glob("*.parquet") if not is_parquet(path))
        for start in (*damaged, starts / f"{time.time_ns()}.parquet"):
            with whole(start) as path:
                pq.write_table(NO_OPERATIONS, path)
        yield starts
