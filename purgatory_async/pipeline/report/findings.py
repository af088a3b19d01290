"""Computes the contents of a report as plain values, from which its page is made, and writes its tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, buckets_for, deal
from purgatory_async.pipeline.operations.coverage import COVER_READ, COVERED, cover
from purgatory_async.pipeline.operations.pairing import ANOMALIES
from purgatory_async.pipeline.operations.tables import (
    anomalies,
    map_operations,
    nodes,
    read_operations,
    write_operations,
)
from purgatory_async.pipeline.output import Stage
from purgatory_async.pipeline.report import totals
from purgatory_async.pipeline.report.gaps import find_edges, missing
from purgatory_async.pipeline.report.prefixes import PERCENTILES, prefix_table, ranked_sums
from purgatory_async.pipeline.report.sums import (
    CHOSEN,
    OUTCOMES,
    READ,
    STEPS,
    SUMS,
    Ranks,
    added_up,
    chosen,
    summed,
)
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS, Extent
from purgatory_async.pipeline.source.tables import map_records, read_journal
from purgatory_async.pipeline.spark_tables import count_rows, spark_reads, spark_writes

_LEAST_WIDTH_NS: Final = 1_000_000
_STRETCHES: Final = 240  # a figure as wide as a page shows no more
_NS: Final = 1_000_000_000
_SHOWN: Final = 20  # of keys, anomalies and damaged lines on the page; the tables have all

_MISSING: Final = pa.schema(
    [("run_id", pa.string()), ("node", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
)
_TIMELINE: Final = pa.schema(
    [(name, pa.int64()) for name in ("start_ns", "width_ns", "submitted", *OUTCOMES[:-1], "pending")]
)

Cells = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a histogram: ``count`` durations, from ``low_ns`` to below ``high_ns``."""

    low_ns: float
    high_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Counts of operations in a stretch of time."""

    start_ns: int  # since 1970
    submitted: int
    ended: Mapping[str, int]  # by outcome
    pending: int  # at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The contents of a report; means are None where nothing is to be divided by."""

    summary: Mapping[str, Any]  # the command's output
    nodes: Sequence[Cells]  # the journal's coverage, a row for each run and node
    began_ns: int | None  # the first record, since 1970
    ended_ns: int | None  # the last record
    arrivals_per_s: float | None  # operations, by the time of all nodes together
    held_mean_s: float | None  # time that an operation is pending
    curve_mean: float | None  # of ``pending`` over the stretches
    width_ns: int  # of a stretch
    stretches: Sequence[Stretch]  # in order, without gaps
    latency: Sequence[Step]  # of completed operations
    lateness: Sequence[Step]  # of expired operations
    keys: Sequence[Cells]  # the busiest ones
    anomalies: Sequence[Cells]  # the first ones
    quarantine: Sequence[Cells]  # the first lines that are not records
    prefixes: Sequence[Cells] = ()  # the busiest ones; empty if no key has one


def examine(spark: SparkSession, extent: Extent, out: Stage, say: Callable[[str], None]) -> Findings:
    """Compute the findings of a journal.

    A directory for each of the tables ``outcomes``, ``timeline``, ``keys``, ``prefixes``, ``anomalies``, ``quarantine``
    and ``missing`` is written to ``out``. ``say`` is called with each step.

    The first pass over the journal surveys its nodes and finds gaps; the second pairs the records of operations and
    writes them; the third counts signals. All other figures are sums of the written operations.
    """
    covered = map_records(spark, extent, cover, COVER_READ, COVERED).persist()
    try:
        return _Examination(spark, extent, out, covered).findings(say)
    finally:
        covered.unpersist()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A written table, which may be empty."""

    table: Any = None  # a data frame; without rows it is not used
    rows: int = 0

    def first(self, *order: str) -> list[dict[str, Any]]:
        """The first rows in some order."""
        return _first(self.table.orderBy(*order)) if self.rows else []


class _Examination:
    """A journal's tables, and the results computed from them into a directory."""

    def __init__(self, spark: SparkSession, extent: Extent, out: Stage, covered: DataFrame) -> None:
        self.spark = spark
        self.extent = extent
        self.out = out
        self.covered = covered
        self.spans = sorted(nodes(covered).collect(), key=lambda span: (span.run_id, span.node))
        self.submitted = sum(span.submits for span in self.spans)
        dealing = partial(deal, buckets=buckets_for(self.submitted))
        self.dealt = map_records(spark, extent, dealing, DEAL_READ, DEALT)
        self.records, self.damage = read_journal(spark, extent)

    def findings(self, say: Callable[[str], None]) -> Findings:
        """Compute everything, and call ``say`` with each step."""
        say(f"putting {self.submitted} operations together")
        sums = self.sums()
        whole = sums.filter(sums["whole"])
        operations = read_operations(self.spark, self.out.tables / "outcomes")
        say("measuring durations")
        ranks = self.ranks(sums)
        say("following the time")
        began_ns, ended_ns = self.covers()
        width_ns = nice_width_ns((ended_ns or 0) - (began_ns or 0))
        stretches = self.timeline(operations, width_ns)
        say("counting by key")
        keys = self.keys(operations)
        by_prefix = totals.by_prefix(keys).toArrow()
        say("looking for what is wrong")
        by_outcome = _by_outcome(whole)
        strange = self.anomalies(2 * self.submitted - by_outcome["pending"])
        damage = self.quarantine()
        held_ns = sum(map(int, whole["held_ns"].to_pylist()))
        span_ns = sum(map(self.watched_ns, self.spans))
        submitted = sum(by_outcome.values())
        return Findings(
            summary={
                "operations": submitted,
                "outcomes": by_outcome,
                "timeout_rate": _ratio(by_outcome["expired"], submitted),
                "latency_ns": _percentiles(ranks, whole, "completed"),
                "lateness_ns": _percentiles(ranks, whole, "expired"),
                "pending_mean": _ratio(held_ns, span_ns),
                "keys": pc.sum(by_prefix["keys"]).as_py() or 0,
                "anomalies": strange.rows,
                "quarantined": damage.rows,
                "missing": self.missing(damage),
                **self.extent.between.summary(),
            },
            nodes=[span.asDict() for span in self.spans],
            began_ns=began_ns,
            ended_ns=ended_ns,
            arrivals_per_s=_ratio(submitted * _NS, span_ns),
            held_mean_s=_ratio(held_ns, submitted * _NS),
            curve_mean=None if self.extent.between else _curve_mean(stretches),  # which ends with the range
            width_ns=width_ns,
            stretches=stretches,
            latency=_drawn(whole, "completed"),
            lateness=_drawn(whole, "expired"),
            keys=_first(keys.orderBy("submitted", "key", ascending=[False, True])),
            anomalies=strange.first("run_id", "node", "seq"),
            quarantine=damage.first("file", "offset"),
            prefixes=self.prefixes(sums, ranks, by_prefix),
        )

    def covers(self) -> tuple[int | None, int | None]:
        """When the first and the last record were, but for those outside of the range; None without any."""
        if not self.spans:
            return None, None
        first_ns = min(span.first_wall_ns for span in self.spans)
        return self.extent.between.clipped(first_ns, max(span.last_wall_ns for span in self.spans))

    def watched_ns(self, span: Row) -> int:
        """How long a run and node was recorded, within the range if there is one."""
        if not self.extent.between:
            return int(span.last_ns - span.first_ns)
        begin, end = self.extent.between.clipped(span.first_wall_ns, span.last_wall_ns)
        return end - begin

    def kept(self, frame: DataFrame, name: str) -> "_Kept":
        """Compute a table once and write it; returns the written table."""
        table = self.out.tables / name
        spark_writes(frame, table)
        return _Kept(spark_reads(self.spark, table, frame.schema), count_rows(table))

    def written(self, table: pa.Table, name: str) -> None:
        """Write a small table here."""
        (self.out.folder / name).mkdir()
        pq.write_table(table, self.out.folder / name / "part-00000.parquet")

    def sums(self) -> pa.Table:
        """The sums of the operations, which are also written as a table."""
        last_ns = {(span.run_id, span.node): span.last_ns for span in self.spans}
        table = self.out.tables / "outcomes"
        return added_up(
            write_operations(self.dealt, table, partial(summed, last_ns=last_ns), SUMS, self.extent.between)
        )

    def timeline(self, operations: DataFrame, width_ns: int) -> list[Stretch]:
        """The stretches of the timeline, also written as a table."""
        rows = totals.timeline(operations, width_ns, self.extent.between).collect()
        stretches = filled((row.asDict() for row in rows), width_ns)
        written = [{**asdict(each), **each.ended, "width_ns": width_ns} for each in stretches]
        self.written(pa.Table.from_pylist(written, _TIMELINE), "timeline")
        return stretches

    def keys(self, operations: DataFrame) -> DataFrame:
        """The watched keys; the written table also has keys that were only signalled."""
        signals = self.records.where(f"kind = 'signal' and {self.extent.between.sql('wall_ns')}")
        if not any(span.signals for span in self.spans):
            signals = signals.limit(0)  # which spares a pass over the journal
        table: DataFrame = self.kept(totals.by_key(operations, signals), "keys").table
        return table.where("submitted > 0")

    def prefixes(self, sums: pa.Table, ranks: Ranks, by_prefix: pa.Table) -> list[dict[str, Any]]:
        """The busiest prefixes of keys, also written as a table; none if no key has one."""
        table = prefix_table(sums, ranks.found, by_prefix)
        self.written(table, "prefixes")
        found: list[dict[str, Any]] = table.slice(0, _SHOWN).to_pylist()
        return found if any(row["prefix"] is not None for row in found) else []

    def ranks(self, sums: pa.Table) -> Ranks:
        """The percentiles of all durations, and of each of the busiest prefixes."""
        ranks = Ranks(ranked_sums(sums), PERCENTILES)
        if ranks.parts:
            pick = partial(chosen, parts=ranks.parts)
            picked = map_operations(self.spark, self.out.tables / "outcomes", READ, pick, CHOSEN)
            for found in totals.ranked(picked, ranks.wanted):
                ranks.solve(*found)
        return ranks

    def anomalies(self, expected: int) -> "_Kept":
        """The records that belong to no operation; skips the search if the counts rule them out."""
        if sum(span.submits + span.outcomes for span in self.spans) == expected:
            self.written(ANOMALIES.empty_table(), "anomalies")
            return _Kept()
        return self.kept(anomalies(self.dealt, self.extent.between), "anomalies")

    def quarantine(self) -> "_Kept":
        """The lines that are not records; only JSON lines can have some."""
        if not self.extent.pieces:
            self.written(DAMAGE_COLUMNS.empty_table(), "quarantine")
            return _Kept()
        return self.kept(self.damage, "quarantine")

    def missing(self, damage: "_Kept") -> list[dict[str, Any]]:
        """Ranges of missing record numbers: between records, before the first and after the last."""
        found: list[tuple[Any, ...]] = []
        if any(span.ranges > 1 for span in self.spans):
            found += map(tuple, missing(self.covered).collect())
        known = {(span.run_id, span.node): (span.first_seq, span.last_seq) for span in self.spans}
        lines = damage.table.groupBy("file").agg(sf.collect_list("offset")).collect() if damage.rows else []
        for node, edges in find_edges(self.extent, dict(map(tuple, lines))).items():
            first, last = known.get(node, (0, 0))
            if edges.from_start:
                found.append((*node, 1, first - 1))
            if last or edges.from_start:
                found.append((*node, last + 1, last + edges.damaged_after))
        rows = [dict(zip(_MISSING.names, gap, strict=True)) for gap in sorted(found) if gap[2] <= gap[3]]
        self.written(pa.Table.from_pylist(rows, _MISSING), "missing")
        return rows


def _by_outcome(whole: pa.Table) -> dict[str, int]:
    counts: dict[str, int] = {str(outcome): 0 for outcome in OUTCOMES}
    for row in whole.select(["outcome", "count"]).to_pylist():
        counts[row["outcome"]] += row["count"]
    return counts


def _percentiles(ranks: Ranks, whole: pa.Table, outcome: str) -> dict[str, int | None]:
    found = ranks.found.get((outcome, None, True), {})
    longest = pc.max(whole.filter(pc.equal(whole["outcome"], outcome))["greatest"]).as_py()
    return {f"p{share}": found.get(share) for share in PERCENTILES} | {"max": longest}


def _drawn(whole: pa.Table, outcome: str) -> list[Step]:
    steps = whole.filter(pc.and_(pc.equal(whole["outcome"], outcome), whole["step"].is_valid()))
    return [
        Step(2 ** (row["step"] / STEPS), 2 ** ((row["step"] + 1) / STEPS), row["count"])
        for row in steps.to_pylist()
    ]


def _curve_mean(stretches: Sequence[Stretch]) -> float | None:
    """The mean of ``pending``, linear within each stretch."""
    if not stretches:
        return None
    ends = [stretch.pending for stretch in stretches]
    return sum((before + after) / 2 for before, after in zip([0, *ends], ends, strict=False)) / len(ends)


def _first(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(_SHOWN).collect()]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def nice_width_ns(span_ns: int) -> int:
    """A stretch's length that divides a time span into 100 to 240: 1, 2 or 5 and zeros, at least 1 ms.

    >>> nice_width_ns(60 * 10**9), nice_width_ns(0)
    (500000000, 1000000)
    """
    widths: Iterator[int] = (
        factor * _LEAST_WIDTH_NS * 10**power for power in count() for factor in (1, 2, 5)
    )
    return next(width for width in widths if width * _STRETCHES >= span_ns)


def filled(rows: Iterable[Cells], width_ns: int) -> list[Stretch]:
    """Sort stretches, insert the empty ones, and count the pending operations.

    >>> rows = [{"start_ns": 20, "submitted": 0, "expired": 1}, {"start_ns": 0, "submitted": 2, "expired": 0}]
    >>> [(stretch.start_ns, stretch.submitted, stretch.pending) for stretch in filled(rows, 10)]
    [(0, 2, 2), (10, 0, 2), (20, 0, 1)]
    """
    known = {row["start_ns"]: row for row in rows}
    stretches: list[Stretch] = []
    pending = 0
    for start_ns in range(min(known, default=0), max(known, default=-1) + 1, width_ns):
        row = known.get(start_ns, {})
        ended = {outcome: row.get(outcome, 0) for outcome in OUTCOMES[:-1]}
        pending += row.get("submitted", 0) - sum(ended.values())
        stretches.append(Stretch(start_ns, row.get("submitted", 0), ended, pending))
    return stretches
