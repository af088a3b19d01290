"""Batches of a journal's stream into windows, each exactly once.

A batch adds rows to the table of windows, a file of its own that is named by the batch's number. What pairs up in a
later batch is kept with the checkpoint: operations that have not ended, and outcomes whose operation has not been seen.
A batch is done when the state after it stands under its final name. Killed before that, it is done again from the state
before it, with the same records, and its file replaces the one that may be there already; killed after that, it is
passed over.
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
    """What to do with each batch; a function for ``foreachBatch``.

    Attributes:
        out: Where ``windows`` and ``quarantine`` are.
        checkpoint: Where the state is.
        window_ns: The windows' width.
    """

    out: Path
    checkpoint: Path
    window_ns: int

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Do a batch, unless it was done.

        Args:
            rows: Of the source's table ``all``.
            batch: Its number; they are done in order.
        """
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
        """Put files without rows into place, so that both tables can be read before they have any."""
        for name, schema in _TABLES.items():
            directory = self.out / name
            directory.mkdir(exist_ok=True)
            if not (directory / _NO_ROWS).exists():
                unfinished = directory / f".{_NO_ROWS}"
                pq.write_table(schema.empty_table(), unfinished)
                unfinished.rename(directory / _NO_ROWS)

    def last_batch(self) -> int:
        """The number of the last batch that is done; -1 if none is."""
        return max(self._batches(), default=-1)

    def _batches(self) -> list[int]:
        """The batches after which the state is kept."""
        directory = self.checkpoint / "state"
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]

    def rows_since(self, batch: int) -> int:
        """How many rows of windows the batches after one have added."""
        files = (self.out / "windows").glob("batch-*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files if int(file.stem[6:]) > batch)

    def _known(self, new: DataFrame, before: int) -> DataFrame:
        """The records of a batch, and those that were left open by the batches before it."""
        records = new.where(sf.col("kind").isNotNull()).select(*RECORD_SCHEMA.names)
        return records if before < 0 else records.unionByName(self._left_open(records, before))

    def _left_open(self, like: DataFrame, before: int) -> DataFrame:
        path = self._state(before) / "records"
        return like.sparkSession.read.schema(RECORD_SCHEMA).parquet(spark_path(path))

    def _new_windows(self, lives: DataFrame, before: int) -> DataFrame:
        """Count what happened in this batch; a submission that was left open has been counted."""
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
        """Put a table's rows into place as one file, so that they are all there or none."""
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
