"""What a checkpoint was made with, and what its shards have counted."""

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
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

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
    """What cannot change while a checkpoint lives: its state or its records of files would mean something else.

    Attributes:
        operations: Where they are read from.
        signals: Likewise.
        out: Where the outcomes go.
        time: ``event`` or ``processing``.
        shards: How many.
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
        """Read what `claimed_checkpoint` wrote.

        Raises:
            OSError: It is not there.
            ValueError, TypeError: It is something else.
        """
        return cls(**json.loads(path.read_bytes()))


def check_checkpoint(checkpoint: Path, out: Path, identity: Identity) -> None:
    """Make sure that a run continues what was begun, or begins anew in both places.

    Args:
        checkpoint: Its directory, there or not.
        out: Where the outcomes are.
        identity: Of this run.

    Raises:
        Refused: The checkpoint was made with other settings or by something else, or there are outcomes without it.
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
        raise Refused(f"--checkpoint {checkpoint} is no directory; name one that is new or empty")
    if checkpoint.is_dir() and any(not path.name.startswith(".") for path in checkpoint.iterdir()):
        raise Refused(
            f"--checkpoint {checkpoint} was not made by this command; name one that is new or empty"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        # Spark would take the batches of a new checkpoint for those already written, and write none of them.
        raise Refused(
            f"--out {out} is not empty and --checkpoint {checkpoint} is new; continue with the checkpoint that belongs "
            "to it, or name another --out"
        )


@contextmanager
def claimed_checkpoint(checkpoint: Path, identity: Identity) -> Iterator[Path]:
    """Hold the checkpoint while the block runs; the hold ends with the process, however it ends.

    Write down what the checkpoint is made with, before anything else is in it, and that a run starts.

    Spark makes no batch after a restart until there is something to read. Timers that became due meanwhile, or that the
    last batch before a crash made due, would wait for it, and a run that reads what is there would end without them. So
    each run begins with a file to read, in which there is nothing.

    Yields:
        A directory that is to be read with the operations, with a file for each start.

    Raises:
        Refused: Another run holds it, or it cannot be made.
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
    """Put a file there, whole or not at all."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.rename(path)


def read_tally(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """Add up what the shards have counted since the checkpoint began, as of its last whole batch.

    The counts are part of the state, so neither a batch that was repeated nor one that was lost is in them twice or not
    at all.
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
    """Lend a name without letters that URIs escape: Spark's reader of states escapes them once too often.

    A directory with such letters gets another name on this machine only; on a cluster it should have none.
    """
    path = directory.absolute()
    if quote(str(path)) == str(path):
        yield path
        return
    with TemporaryDirectory(prefix="purgatory-") as scratch:
        plain = Path(scratch, "checkpoint")
        plain.symlink_to(path)
        yield plain
