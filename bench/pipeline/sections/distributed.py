"""The distributed purgatory under a steady load: how late its outcomes are known, what it keeps, how much it takes."""

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from bench.measure.line import Verdict
from bench.measure.section import Section
from bench.pipeline.live_feed import LONGEST_S, LiveFeed
from bench.pipeline.rate import loop_speed, scratch
from bench.pipeline.settings import PipelineSettings
from purgatory_async.pipeline.distributed.query import DECIDING_STAGE, WATCHING_STAGE
from purgatory_async.pipeline.jobs.distributed import JAVA_OPTIONS, Plan, run
from purgatory_async.pipeline.output import checkpoint_path
from purgatory_async.pipeline.session import open_session

__all__ = ["SECTION"]

RATE = 3_000.0
WARM_RATE = 300.0
WARM_BATCHES = 5
SECONDS = 60
STEP_SECONDS = 30
GROWTH = 1.3  # of the median lag from the second third of a step to the last; less is the noise of batches
GRACE_S = 10.0
PATIENCE_S = 180.0
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure and what was promised of it.

    Args:
        name: What it is.
        unit: The unit of the value.
        value: As measured.
        least: No less was promised, if anything.
        most: No more was promised, if anything.
        note: Whatever else the reader should see.
    """

    name: str
    unit: str
    value: float
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Met, missed, or only shown."""
        if self.least is None and self.most is None:
            return Verdict.SHOWN
        enough = self.least is None or self.value >= self.least
        return Verdict.MET if enough and (self.most is None or self.value <= self.most) else Verdict.MISSED

    def __str__(self) -> str:
        target = f">= {self.least:,.0f}" if self.least is not None else ""
        target = f"<= {self.most:,g}" if self.most is not None else target
        columns = f"{self.name:<44} {self.value:>14,.2f} {self.unit:<8} {target:>10}  {self.verdict}"
        return f"{columns}{f'  ({self.note})' if self.note else ''}"


class Load:
    """A feed as the job asks it whether to stop: a little at first, then the rate, then until all is out.

    Args:
        feed: Poured from at every call.
        plan: The plan of the job; its output shows how far it is.
        rate: The full one, operations a second.
        seconds: At the full rate.
    """

    def __init__(self, feed: LiveFeed, plan: Plan, rate: float, seconds: float) -> None:
        self.first = self.offered = 0
        self.begin_s = self.end_s = 0.0
        self._feed = feed
        self._plan = plan
        self._rate = rate
        self._seconds = seconds
        self._all_out_s = 0.0

    def __call__(self) -> bool:
        """Go on with it; whether it is over."""
        now_s = time.time()
        if not self.begin_s:
            if len(_batches(self._plan)) < WARM_BATCHES:
                self._feed.pour(WARM_RATE)
                return False
            self.begin_s, self.first = now_s, self._feed.submitted
        if now_s < self.begin_s + self._seconds:
            self._feed.pour(self._rate)
            return False
        if not self.end_s:
            self.end_s, self.offered = now_s, self._feed.submitted - self.first
        self._feed.pour(0)
        if not self._all_out_s and _rows(self._plan) >= self._feed.submitted:
            self._all_out_s = now_s
        waited_s = now_s - (self._all_out_s or self.end_s)
        return waited_s > (self._plan.keep + GRACE_S if self._all_out_s else PATIENCE_S)


def lines(settings: PipelineSettings) -> Iterator[Figure]:
    """Processing time, 3000 operations a second; then more, in steps."""
    seconds = min(SECONDS, settings.operations / RATE / 3)
    with (
        scratch() as directory,
        open_session(
            "benchmark",
            master=settings.master,
            settings={"spark.driver.memory": "1g"},
            java_options=JAVA_OPTIONS,
        ) as spark,
    ):
        speeds = [loop_speed()]
        plan, load, found = _loaded(spark, directory / "steady", settings, RATE, seconds)
        speeds.append(loop_speed())
        lags = np.concatenate([lag for lag in _lags(plan, load) if len(lag)])
        decided_s = max(path.stat().st_mtime for path in _batches(plan)) - load.begin_s
        yield Figure(
            name="offered", unit="1/s", value=load.offered / (load.end_s - load.begin_s), least=0.99 * RATE
        )
        yield Figure(name="not decided or decided twice", unit="", value=_astray(plan, found), most=0)
        yield Figure(name="lag, median", unit="s", value=float(np.percentile(lags, 50)))
        yield Figure(name="lag, 99 in 100", unit="s", value=float(np.percentile(lags, 99)), most=1.5)
        yield Figure(name="lag, longest", unit="s", value=float(lags.max()))
        yield Figure(name="a batch, median", unit="s", value=median(_gaps(plan, load)))
        yield Figure(name="whole run, from the first at full rate", unit="s", value=decided_s)
        yield Figure(name="memory of Spark's JVM, most", unit="GiB", value=_jvm_peak() / GIB, most=2)
        yield Figure(name="bytes of state at the end", unit="", value=_kept(spark, plan.checkpoint), most=0)
        yield Figure(
            name="a plain loop of Python's",
            unit="M/s",
            value=median(speeds) / 10**6,
            note="turns of it, beside the run: how fast the machine was",
        )
        most = _most_taken(spark, directory, settings, min(STEP_SECONDS, seconds))
        yield Figure(name="most without a growing lag", unit="1/s", value=most, least=2 * RATE)


def _loaded(
    spark: SparkSession, directory: Path, settings: PipelineSettings, rate: float, seconds: float
) -> tuple[Plan, Load, dict[str, int]]:
    """A run under load; its plan, the load and the summary."""
    plan = _plan(directory)
    load = Load(LiveFeed(plan.operations, plan.signals, settings.seed), plan, rate, seconds)
    found, _ = run(plan, spark, load)
    return plan, load, found


def _most_taken(spark: SparkSession, directory: Path, settings: PipelineSettings, seconds: float) -> float:
    """The highest rate of the steps up to the first at which outcomes are known later and later."""
    most = RATE
    for step in settings.steps:
        plan, load, _ = _loaded(spark, directory / f"times-{step}", settings, step * RATE, seconds)
        if _grows(plan, load):
            break
        most = step * RATE
    return most


def _grows(plan: Plan, load: Load) -> bool:
    """Whether outcomes decided in the last third of the load were known later than outcomes of the second."""
    third_s = (load.end_s - load.begin_s) / 3
    thirds: dict[int, list[np.ndarray]] = {1: [], 2: []}
    for path, known_s in _files_of(plan).items():
        decided_s = pq.read_table(path, columns=["decided_ns"])["decided_ns"].to_numpy() / 1e9
        third = (decided_s - load.begin_s) // third_s
        for number, lags in thirds.items():
            lags.append(known_s - decided_s[third == number])
    before, after = (np.median(np.concatenate(lags)) for lags in thirds.values())
    return bool(after > GROWTH * before)


def _plan(directory: Path) -> Plan:
    for name in ("operations", "signals"):
        (directory / name).mkdir(parents=True)
    return Plan(
        operations=directory / "operations",
        signals=directory / "signals",
        out=directory / "out",
        checkpoint=directory / "checkpoint",
        time="processing",
        keep=LONGEST_S,
    )


def _batches(plan: Plan) -> list[Path]:
    """The lists of what each batch wrote, in order; the time of a list is when its outcomes could be read."""
    place = plan.out / "outcomes" / "_spark_metadata"
    found = [path for path in place.glob("*") if re.fullmatch(r"\d+(\.compact)?", path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def _files_of(plan: Plan) -> dict[Path, float]:
    """When each file of outcomes could be read, seconds since 1970."""
    files: dict[Path, float] = {}
    for batch in _batches(plan):
        for line in batch.read_text(encoding="utf-8").splitlines()[1:]:
            files.setdefault(Path(json.loads(line)["path"].removeprefix("file://")), batch.stat().st_mtime)
    return files


def _rows(plan: Plan) -> int:
    return sum(pq.read_metadata(path).num_rows for path in _files_of(plan))


def _lags(plan: Plan, load: Load) -> Iterator[np.ndarray]:
    """From the decision to the file that tells of it, of the operations submitted at the full rate."""
    for path, known_s in _files_of(plan).items():
        table = pq.read_table(path, columns=["submit_ns", "decided_ns"])
        lag = known_s - table["decided_ns"].to_numpy() / 1e9
        yield lag[table["submit_ns"].to_numpy() / 1e9 >= load.begin_s]


def _gaps(plan: Plan, load: Load) -> list[float]:
    """Seconds from one batch to the next, under load."""
    times = [path.stat().st_mtime for path in _batches(plan)]
    return [after - before for before, after in pairwise(times) if before > load.begin_s]


def _astray(plan: Plan, found: dict[str, int]) -> int:
    ids = [name for path in _files_of(plan) for name in pq.read_table(path)["op_id"].to_pylist()]
    return len(ids) - len(set(ids)) + found["submitted"] - len(set(ids))


def _jvm_peak() -> int:
    """The most memory that a Java started here has had, bytes."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    statuses = [Path(f"/proc/{child}/status").read_text(encoding="utf-8") for child in children]
    return max(
        int(re.search(r"VmHWM:\s+(\d+)", text)[1]) * 1024  # type: ignore[index] # every process has one
        for text in statuses
        if text.startswith("Name:\tjava")
    )


def _kept(spark: SparkSession, checkpoint: Path) -> int:
    """Bytes of watches, signals and operations in the last state."""
    kept = 0
    for stage, values in ((WATCHING_STAGE, ("watches", "seen")), (DECIDING_STAGE, ("pending", "unsettled"))):
        state = (
            spark.read.format("statestore")
            .option("operatorId", stage)
            .option("stateVarName", "shard")
            .load(checkpoint_path(checkpoint))
        )
        sizes = [F.coalesce(F.sum(F.length(f"value.{value}")), F.lit(0)) for value in values]
        kept += sum(state.agg(*sizes).first() or ())
    return kept


SECTION = Section(
    name="distributed",
    title="The purgatory on Spark, 3000 operations a second for a minute",
    timed=(
        "Operations on one to three keys with timeouts of one to three seconds, and two signals for three "
        "operations, in files as they happen. The lag runs from the instant at which an operation was decided "
        f"to the file that has its outcome. {WARM_BATCHES} small batches come first, so that Spark has "
        "compiled what it runs. Then the rate goes up in steps, until outcomes are known later and later."
    ),
    lines=lines,
    heading=f"{'':<44} {'value':>14} {'unit':<8} {'target':>10}  verdict",
)
