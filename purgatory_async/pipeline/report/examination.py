"""Computes a report's findings from a journal, and writes its tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, buckets_for, deal
from purgatory_async.pipeline.operations.coverage import COVER_READ, COVERED, cover
from purgatory_async.pipeline.operations.pairing import OPERATIONS
from purgatory_async.pipeline.operations.tables import anomalies, nodes, paired
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
from purgatory_async.pipeline.report.tallies import (
    KEYS_READ,
    SIGNALLED,
    STEPS,
    TALLIES,
    OutcomeParts,
    Tally,
    signalled,
)
from purgatory_async.pipeline.report.totals import by_key, durations, histogram, timeline, totals
from purgatory_async.pipeline.schemas import spark_schema
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
        out: Gets the tables ``outcomes``, ``timeline``, ``keys``, ``anomalies``, ``quarantine`` and ``missing``,
            each a directory with Parquet files.
        say: Called with each step.

    The first pass over the journal surveys its nodes and finds gaps; the second pairs the records of operations,
    writes them and counts them; the third counts signals. Only percentiles read the operations again.
    """
    with ExitStack() as caches:
        return _examined(_Examination(spark, extent, out, caches), say)


def _examined(examination: "_Examination", say: Callable[[str], None]) -> Findings:
    covered = examination.nodes()
    say(f"putting {sum(node.submits for node in covered)} operations together")
    width_ns = nice_width_ns(_wall_ns(covered, max, "last") - _wall_ns(covered, min, "first"))
    tallies = examination.tallies(covered, width_ns)
    counts = totals(tallies).collect()  # computes the tallies, and writes the operations
    say("measuring durations")
    steps = _steps(histogram(tallies).collect())
    percentiles = _percentiles(durations(examination.operations()), steps)
    say("following the time")
    stretches = examination.timeline(tallies, width_ns)
    say("counting by key")
    keys = examination.keys(tallies, covered)
    say("looking for what is wrong")
    by_outcome = _by_outcome(counts)
    submitted = sum(row.operations for row in counts)
    held_ns = _held_ns(counts, covered)
    span_ns = sum(node.last_ns - node.first_ns for node in covered)
    strange = examination.anomalies(2 * submitted - by_outcome["pending"], covered)
    damage = examination.kept(examination.damage, "quarantine")
    return Findings(
        summary={
            "operations": submitted,
            "outcomes": by_outcome,
            "timeout_rate": _ratio(by_outcome["expired"], submitted),
            "latency_ns": percentiles["completed"],
            "lateness_ns": percentiles["expired"],
            "pending_mean": _ratio(held_ns, span_ns),
            "keys": keys.count(),
            "anomalies": strange.count(),
            "quarantined": damage.count(),
            "missing": examination.missing(damage, covered),
        },
        nodes=[node.asDict() for node in covered],
        began_ns=min((node.first_wall_ns for node in covered), default=None),
        ended_ns=max((node.last_wall_ns for node in covered), default=None),
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
    )


class _Examination:
    """A journal's tables, and the results computed from them into a directory."""

    def __init__(self, spark: SparkSession, extent: Extent, out: Stage, caches: ExitStack) -> None:
        self._spark = spark
        self._extent = extent
        self._out = out
        self._caches = caches
        self.damage = read_journal(spark, extent).damage
        self._covered = self._cached(map_records(spark, extent, cover, COVER_READ, COVERED))

    def _cached(self, frame: DataFrame) -> DataFrame:
        """Cache a table until the end of the examination."""
        frame.persist()
        self._caches.callback(frame.unpersist)
        return frame

    def nodes(self) -> list[Row]:
        """The runs and nodes, in order."""
        return sorted(nodes(self._covered).collect(), key=lambda node: (node.run_id, node.node))

    def _dealt(self, covered: Iterable[Row]) -> DataFrame:
        number = buckets_for(sum(node.submits for node in covered))
        return map_records(self._spark, self._extent, partial(deal, buckets=number), DEAL_READ, DEALT)

    def tallies(self, covered: Iterable[Row], width_ns: int) -> DataFrame:
        """Tallies of the operations; computing them writes the operations."""
        parts = OutcomeParts(self._out.tables.absolute() / "outcomes", Tally(width_ns))
        parts.lay_out()
        return self._cached(paired(self._dealt(covered), parts.write, TALLIES))

    def operations(self) -> DataFrame:
        """The written operations."""
        return spark_reads(self._spark, self._out.tables / "outcomes", spark_schema(OPERATIONS))

    def kept(self, frame: DataFrame, name: str) -> DataFrame:
        """Compute a table once and write it; returns the written table."""
        table = self._out.tables / name
        spark_writes(frame, table)
        return spark_reads(self._spark, table, frame.schema)

    def timeline(self, tallies: DataFrame, width_ns: int) -> list[Stretch]:
        """The stretches of the timeline, also written as a table."""
        stretches = filled((row.asDict() for row in timeline(tallies).collect()), width_ns)
        rows = [
            {
                "start_ns": each.start_ns,
                "width_ns": width_ns,
                "submitted": each.submitted,
                "pending": each.pending,
            }
            | dict(each.ended)
            for each in stretches
        ]
        self._write("timeline", pa.Table.from_pylist(rows, _TIMELINE))
        return stretches

    def keys(self, tallies: DataFrame, covered: Iterable[Row]) -> DataFrame:
        """The watched keys; the written table also has keys that were only signalled."""
        signals = map_records(self._spark, self._extent, signalled, KEYS_READ, SIGNALLED)
        if not any(node.signals for node in covered):
            signals = self._spark.createDataFrame([], spark_schema(SIGNALLED))
        return self.kept(by_key(tallies, signals), "keys").where("submitted > 0")

    def anomalies(self, expected: int, covered: Sequence[Row]) -> DataFrame:
        """The records that belong to no operation; skips the search if the counts rule them out."""
        found = anomalies(self._dealt(covered))
        if sum(node.submits + node.outcomes for node in covered) == expected:
            found = self._spark.createDataFrame([], found.schema)
        return self.kept(found, "anomalies")

    def missing(self, damage: DataFrame, covered: Iterable[Row]) -> list[dict[str, Any]]:
        """Ranges of missing record numbers: between records, before the first and after the last."""
        found = [row.asDict() for row in missing(self._covered).collect()]
        known = {(node.run_id, node.node): node for node in covered}
        lines: dict[str, list[int]] = {}
        for row in damage.select("file", "offset").collect():
            lines.setdefault(row["file"], []).append(row["offset"])
        for (run_id, node), edges in find_edges(self._extent, lines).items():
            first, last = (
                known[run_id, node][name] if (run_id, node) in known else 0
                for name in ("first_seq", "last_seq")
            )
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
        (self._out.folder / name).mkdir()
        pq.write_table(table, self._out.folder / name / "part-00000.parquet")


def _wall_ns(covered: Iterable[Row], most: Callable[..., int], end: str) -> int:
    return most((node[f"{end}_wall_ns"] for node in covered), default=0)


def _by_outcome(counts: Iterable[Row]) -> dict[str, int]:
    by_outcome: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
    for row in counts:
        by_outcome[row.outcome or "pending"] += row.operations
    return by_outcome


def _held_ns(counts: Iterable[Row], covered: Iterable[Row]) -> int:
    """The sum of all operations' pending times; a pending one counts up to its node's last record."""
    last_ns = {(node.run_id, node.node): node.last_ns for node in covered}
    return sum(
        row.held_s * _NS
        + row.held_ns
        + (row.operations * last_ns[row.run_id, row.node] if row.outcome is None else 0)
        for row in counts
    )


def _steps(rows: Iterable[Row]) -> dict[str, list[Row]]:
    steps: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["name"], row["step"])):
        steps.setdefault(row["name"], []).append(row)
    return steps


def _percentiles(measured: DataFrame, steps: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, int | None]]:
    counts = {
        name: [(row["count"], row["least"], row["greatest"]) for row in rows] for name, rows in steps.items()
    }
    ranks = nearest_ranks(measured, counts, PERCENTILES)
    return {
        name: {f"p{share}": ranks.get(name, {}).get(share) for share in PERCENTILES}
        | {"max": max((greatest for _, _, greatest in counts.get(name, [])), default=None)}
        for name in ("completed", "expired")
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
