"""Counts the batches of a journal's stream in windows, each exactly once.

A batch adds rows to the table of windows, in a file named by the batch's number. The checkpoint keeps the records that
a later batch may pair: operations that have not ended, and outcomes whose operation has not been seen. A batch is done
when the state after it has its final name. Killed before that, it is repeated from the state before it with the same
records, and replaces its file; killed after that, it is skipped.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.output import spark_writes, staged
from purgatory_async.pipeline.schemas import DAMAGE_SCHEMA, RECORD_SCHEMA
from purgatory_async.pipeline.sources.paths import spark_path
from purgatory_async.pipeline.sources.rows import DAMAGE_COLUMNS
from purgatory_async.pipeline.transforms.operations import OPERATION, operations
from purgatory_async.pipeline.transforms.windows import OUTCOMES, steps, windows

__all__ = ["WindowBatches"]

_NO_ROWS: Final = "no-rows.parquet"
_TABLES: Final = {
    "windows": pa.schema(
        [
            ("window_start_ns", pa.int64()),
            ("key", pa.string()),
            *((word, pa.int64()) for word in ("submitted", *OUTCOMES)),
            ("latency_sketch", pa.binary()),
        ]
    ),
    "quarantine": DAMAGE_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class WindowBatches:
    """Processes each batch; a callable for ``foreachBatch``.

    Attributes:
        out: Directory of ``windows`` and ``quarantine``.
        checkpoint: Directory of the state.
        window_ns: The windows' width.
    """

    out: Path
    checkpoint: Path
    window_ns: int

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Process a batch of the source's table ``all``, unless it is done; batches come in order."""
        before = self.last_batch()
        if batch <= before:
            return
        needed = rows.where(sf.col("kind").isin("submit", "outcome") | sf.col("reason").isNotNull()).persist()
        lives = operations(self._known(needed, before)).persist()
        try:
            self._publish(self._new_windows(lives, before), "windows", batch)
            damage = needed.where(sf.col("reason").isNotNull()).select(*DAMAGE_SCHEMA.names)
            if not damage.isEmpty():
                self._publish(damage, "quarantine", batch)
            with staged(self._state(batch)) as stage:
                spark_writes(self._open(needed, lives, before), stage / "records")
        finally:
            lives.unpersist()
            needed.unpersist()
        for old in self._batches():
            if old < before:
                shutil.rmtree(self._state(old), ignore_errors=True)

    def lay_out(self) -> None:
        """Write files without rows, so that both tables can be read while they are empty."""
        for name, schema in _TABLES.items():
            directory = self.out / name
            directory.mkdir(exist_ok=True)
            if not (directory / _NO_ROWS).exists():
                unfinished = directory / f".{_NO_ROWS}"
                pq.write_table(schema.empty_table(), unfinished)
                unfinished.rename(directory / _NO_ROWS)

    def last_batch(self) -> int:
        """The number of the last completed batch; -1 for none."""
        return max(self._batches(), default=-1)

    def _batches(self) -> list[int]:
        """The batches whose state is kept."""
        directory = self.checkpoint / "state"
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]

    def rows_since(self, batch: int) -> int:
        """How many rows of windows the batches after one have added."""
        files = (self.out / "windows").glob("batch-*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files if int(file.stem[6:]) > batch)

    def _known(self, new: DataFrame, before: int) -> DataFrame:
        """The records of a batch, and those that earlier batches left open."""
        records = new.where(sf.col("kind").isNotNull()).select(*RECORD_SCHEMA.names)
        return records if before < 0 else records.unionByName(self._left_open(records, before))

    def _left_open(self, like: DataFrame, before: int) -> DataFrame:
        path = self._state(before) / "records"
        return like.sparkSession.read.schema(RECORD_SCHEMA).parquet(spark_path(path))

    def _new_windows(self, lives: DataFrame, before: int) -> DataFrame:
        """Count the steps of this batch; an earlier batch has counted the submissions left open."""
        happened = steps(lives)
        if before >= 0:
            counted = self._left_open(lives, before).where(sf.col("kind") == "submit")
            record = ["run_id", "node", "seq"]
            happened = happened.join(counted.select(*record), on=record, how="left_anti")
        return windows(happened, self.window_ns)

    def _open(self, new: DataFrame, lives: DataFrame, before: int) -> DataFrame:
        """The records that a later batch needs: submissions without outcome, and outcomes without submission."""
        outcomes = self._known(new, before).where(sf.col("kind") == "outcome")
        strays = outcomes.join(lives.select(*OPERATION), on=list(OPERATION), how="left_anti")
        pending = lives.where(sf.col("outcome").isNull()).select(
            *OPERATION,
            sf.lit("submit").alias("kind"),
            sf.col("submit_seq").alias("seq"),
            sf.col("submit_ns").alias("mono_ns"),
            sf.col("submit_wall_ns").alias("wall_ns"),
            "keys",
            "needed",
            "timeout_ns",
        )
        return strays.unionByName(pending, allowMissingColumns=True)

    def _state(self, batch: int) -> Path:
        return self.checkpoint / "state" / f"{batch:09d}"

    def _publish(self, table: DataFrame, name: str, batch: int) -> None:
        """Write a table as one file, atomically."""
        scratch = self.out / f".{name}-{batch:09d}"
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        spark_writes(table.repartition(1), scratch)
        final = self.out / name / f"batch-{batch:09d}.parquet"
        for part in scratch.glob("part-*.parquet"):
            if pq.read_metadata(part).num_rows:
                _sync(part)
                part.rename(final)
                _sync(final.parent)
        shutil.rmtree(scratch)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
