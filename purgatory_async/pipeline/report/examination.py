"""Computes a report's findings from a journal, and writes its tables."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, buckets_for, deal
from purgatory_async.pipeline.operations.coverage import COVER_READ, COVERED, cover
from purgatory_async.pipeline.operations.tables import anomalies, nodes, write_operations
from purgatory_async.pipeline.output import Stage
from purgatory_async.pipeline.report.findings import (
    OUTCOMES,
    PERCENTILES,
    Findings,
    Step,
    Stretch,
    filled,
    nice_width_ns,
)
from purgatory_async.pipeline.report.gaps import find_edges, missing
from purgatory_async.pipeline.report.ranks import nearest_ranks
from purgatory_async.pipeline.report.totals import (
    STEPS,
    by_key,
    by_prefix,
    durations,
    histogram,
    timeline,
    totals,
)
from purgatory_async.pipeline.source.extent import Extent
from purgatory_async.pipeline.source.tables import map_records, read_journal
from purgatory_async.pipeline.spark_tables import spark_reads, spark_writes

__all__ = ["examine"]

_NS: Final = 1_000_000_000
_SHOWN: Final = 20  # of keys, anomalies and damaged lines on the page; the tables have all

_MISSING: Final = pa.schema(
    [("run_id", pa.string()), ("node", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
)
_TIMELINE: Final = pa.schema(
    [(name, pa.int64()) for name in ("start_ns", "width_ns", "submitted", *OUTCOMES[:-1], "pending")]
)


def examine(spark: SparkSession, extent: Extent, out: Stage, say: Callable[[str], None]) -> Findings:
    """Compute the findings of a journal.

    Args:
        spark: The session.
        extent: The part of the journal to read.
        out: Gets the tables ``outcomes``, ``timeline``, ``keys``, ``prefixes``, ``anomalies``, ``quarantine`` and
            ``missing``, each a directory with Parquet files.
        say: Called with each step.

    The first pass over the journal surveys its nodes and finds gaps; the second pairs the records of operations and
    writes them; the third counts signals. All other figures are sums of the written operations.
    """
    covered = map_records(spark, extent, cover, COVER_READ, COVERED).persist()
    try:
        return _examined(_Examination(spark, extent, out, covered), say)
    finally:
        covered.unpersist()


def _examined(journal: "_Examination", say: Callable[[str], None]) -> Findings:
    spans = journal.spans
    say(f"putting {journal.submitted} operations together")
    operations = write_operations(journal.dealt, journal.out.tables / "outcomes")
    counts = totals(operations, nodes(journal.covered)).collect()
    say("measuring durations")
    measured = durations(operations)
    steps = _steps(histogram(measured).collect())
    say("following the time")
    began_ns = min((span.first_wall_ns for span in spans), default=None)
    ended_ns = max((span.last_wall_ns for span in spans), default=None)
    width_ns = nice_width_ns((ended_ns or 0) - (began_ns or 0))
    stretches = journal.timeline(operations, width_ns)
    say("counting by key")
    keys = journal.keys(operations)
    say("looking for what is wrong")
    by_outcome = dict.fromkeys(OUTCOMES, 0) | {row.outcome: row.operations for row in counts}
    strange = journal.anomalies(2 * journal.submitted - by_outcome["pending"])
    damage = journal.kept(journal.damage, "quarantine")
    held_ns = sum(int(row.held_ns) for row in counts)
    span_ns = sum(span.last_ns - span.first_ns for span in spans)
    submitted = sum(by_outcome.values())
    return Findings(
        summary={
            "operations": submitted,
            "outcomes": by_outcome,
            "timeout_rate": _ratio(by_outcome["expired"], submitted),
            **_percentiles(measured, steps),
            "pending_mean": _ratio(held_ns, span_ns),
            "keys": keys.count(),
            "anomalies": strange.count(),
            "quarantined": damage.count(),
            "missing": journal.missing(damage),
        },
        nodes=[span.asDict() for span in spans],
        began_ns=began_ns,
        ended_ns=ended_ns,
        arrivals_per_s=_ratio(submitted * _NS, span_ns),
        held_mean_s=_ratio(held_ns, submitted * _NS),
        curve_mean=_curve_mean(stretches),
        width_ns=width_ns,
        stretches=stretches,
        latency=_drawn(steps.get("completed", [])),
        lateness=_drawn(steps.get("expired", [])),
        keys=_first(keys.orderBy("submitted", "key", ascending=[False, True])),
        anomalies=_first(strange.orderBy("run_id", "node", "seq")),
        quarantine=_first(damage.orderBy("file", "offset")),
        prefixes=journal.prefixes(keys),
    )


class _Examination:
    """A journal's tables, and the results computed from them into a directory."""

    def __init__(self, spark: SparkSession, extent: Extent, out: Stage, covered: DataFrame) -> None:
        self._spark = spark
        self._extent = extent
        self.out = out
        self.covered = covered
        self.spans = sorted(nodes(covered).collect(), key=lambda span: (span.run_id, span.node))
        self.submitted = sum(span.submits for span in self.spans)
        dealing = partial(deal, buckets=buckets_for(self.submitted))
        self.dealt = map_records(spark, extent, dealing, DEAL_READ, DEALT)
        self._records, self.damage = read_journal(spark, extent)

    def kept(self, frame: DataFrame, name: str) -> DataFrame:
        """Compute a table once and write it; returns the written table."""
        table = self.out.tables / name
        spark_writes(frame, table)
        return spark_reads(self._spark, table, frame.schema)

    def timeline(self, operations: DataFrame, width_ns: int) -> list[Stretch]:
        """The stretches of the timeline, also written as a table."""
        stretches = filled((row.asDict() for row in timeline(operations, width_ns).collect()), width_ns)
        rows = [
            {
                "start_ns": each.start_ns,
                "width_ns": width_ns,
                "submitted": each.submitted,
                "pending": each.pending,
                **each.ended,
            }
            for each in stretches
        ]
        self._write("timeline", pa.Table.from_pylist(rows, _TIMELINE))
        return stretches

    def keys(self, operations: DataFrame) -> DataFrame:
        """The watched keys; the written table also has keys that were only signalled."""
        signals = self._records.where("kind = 'signal'")
        if not any(span.signals for span in self.spans):
            signals = self._spark.createDataFrame([], signals.schema)
        return self.kept(by_key(operations, signals), "keys").where("submitted > 0")

    def prefixes(self, keys: DataFrame) -> list[dict[str, Any]]:
        """The busiest prefixes of keys, also written as a table; none if no key has one."""
        table = self.kept(by_prefix(keys), "prefixes")
        found = _first(table.orderBy("submitted", "prefix", ascending=[False, True]))
        return found if any(row["prefix"] is not None for row in found) else []

    def anomalies(self, expected: int) -> DataFrame:
        """The records that belong to no operation; skips the search if the counts rule them out."""
        found = anomalies(self.dealt)
        if sum(span.submits + span.outcomes for span in self.spans) == expected:
            found = self._spark.createDataFrame([], found.schema)
        return self.kept(found, "anomalies")

    def missing(self, damage: DataFrame) -> list[dict[str, Any]]:
        """Ranges of missing record numbers: between records, before the first and after the last."""
        found = [row.asDict() for row in missing(self.covered).collect()]
        known = {(span.run_id, span.node): (span.first_seq, span.last_seq) for span in self.spans}
        lines: dict[str, list[int]] = {}
        for row in damage.select("file", "offset").collect():
            lines.setdefault(row["file"], []).append(row["offset"])
        for (run_id, node), edges in find_edges(self._extent, lines).items():
            first, last = known.get((run_id, node), (0, 0))
            ranges = [(1, first - 1)] if edges.from_start else []
            if last or edges.from_start:
                ranges.append((last + 1, last + edges.damaged_after))
            found += [
                {"run_id": run_id, "node": node, "first": start, "last": end}
                for start, end in ranges
                if start <= end
            ]
        found.sort(key=lambda gap: (gap["run_id"], gap["node"], gap["first"]))
        self._write("missing", pa.Table.from_pylist(found, _MISSING))
        return found

    def _write(self, name: str, table: pa.Table) -> None:
        (self.out.folder / name).mkdir()
        pq.write_table(table, self.out.folder / name / "part-00000.parquet")


def _steps(rows: Iterable[Row]) -> dict[str, list[Row]]:
    ascending = sorted(rows, key=lambda row: (row["name"], row["step"]))
    return {name: list(own) for name, own in groupby(ascending, lambda row: str(row["name"]))}


def _percentiles(measured: DataFrame, steps: dict[str, list[Row]]) -> dict[str, dict[str, int | None]]:
    counts = {
        name: [(row["count"], row["least"], row["greatest"]) for row in rows] for name, rows in steps.items()
    }
    ranks = nearest_ranks(measured, counts, PERCENTILES)
    return {
        field: {f"p{share}": ranks.get(name, {}).get(share) for share in PERCENTILES}
        | {"max": counts[name][-1][2] if name in counts else None}
        for field, name in (("latency_ns", "completed"), ("lateness_ns", "expired"))
    }


def _drawn(rows: Iterable[Row]) -> list[Step]:
    return [Step(2 ** (row["step"] / STEPS), 2 ** ((row["step"] + 1) / STEPS), row["count"]) for row in rows]


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
