"""A checkpoint's settings, and the counts of its shards."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from purgatory_async.pipeline.hold import held
from purgatory_async.pipeline.refusal import Refused
from purgatory_async.pipeline.sources.paths import checkpoint_path
from purgatory_async.pipeline.stateful.deciding import TALLY
from purgatory_async.pipeline.stateful.inputs import NO_OPERATIONS
from purgatory_async.pipeline.stateful.query import DECIDING_STAGE

__all__ = ["Identity", "check_checkpoint", "claimed_checkpoint", "read_tally"]

FORMAT: Final = 1
_NAME: Final = "purgatory.json"


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
        made_with = Identity.read(checkpoint / _NAME)
    except (FileNotFoundError, NotADirectoryError):
        _check_fresh(checkpoint, out)
        return
    except (OSError, ValueError, TypeError) as error:
        raise Refused(
            f"--checkpoint {checkpoint}: {_NAME} cannot be read: {error}; name another directory"
        ) from None
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
        _put(checkpoint / _NAME, (json.dumps(asdict(identity), indent=2) + "\n").encode())
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


def read_tally(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """Sum the shards' counts since the checkpoint began, as of its last complete batch.

    The counts are part of the state, so they are exact even if batches were lost or repeated.
    """
    commits = checkpoint / "commits"
    if not commits.is_dir() or not any(path.name.isdigit() for path in commits.iterdir()):
        return dict.fromkeys(TALLY, 0)
    with _plainly_named(checkpoint) as place:
        state = (
            spark.read.format("statestore")
            .option("operatorId", DECIDING_STAGE)
            .option("stateVarName", "shard")
            .load(checkpoint_path(place))
        )
        sums = (F.coalesce(F.sum(f"value.{name}"), F.lit(0)).alias(name) for name in TALLY)
        row: Any = state.agg(*sums).first()
    return {name: row[name] for name in TALLY}


@contextmanager
def _plainly_named(directory: Path) -> Iterator[Path]:
    """Yield a name without letters that URIs escape: Spark's reader of states escapes them twice.

    The new name exists on this machine only; on a cluster, directories need plain names.
    """
    path = directory.absolute()
    if quote(str(path)) == str(path):
        yield path
        return
    with TemporaryDirectory(prefix="purgatory-") as scratch:
        plain = Path(scratch, "checkpoint")
        plain.symlink_to(path)
        yield plain
