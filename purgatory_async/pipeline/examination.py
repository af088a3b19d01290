"""From a journal to what its report says; the tables are written on the way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_async.pipeline.findings import (
    OUTCOMES,
    PERCENTILES,
    Findings,
    Step,
    Stretch,
    filled,
    nice_width_ns,
)
from purgatory_async.pipeline.output import spark_writes
from purgatory_async.pipeline.sources.edges import find_edges
from purgatory_async.pipeline.sources.extent import Extent
from purgatory_async.pipeline.sources.paths import spark_path
from purgatory_async.pipeline.sources.tables import read_journal
from purgatory_async.pipeline.transforms.keys import by_key
from purgatory_async.pipeline.transforms.missing import missing
from purgatory_async.pipeline.transforms.nodes import nodes
from purgatory_async.pipeline.transforms.operations import anomalies, operations
from purgatory_async.pipeline.transforms.ranks import nearest_ranks
from purgatory_async.pipeline.transforms.timeline import timeline
from purgatory_async.pipeline.transforms.totals import STEPS, durations, histogram, totals

__all__ = ["examine"]

_NS: Final = 1_000_000_000
_SHOWN: Final = 20  # of keys, anomalies and damaged lines on the page; the tables have all

_MISSING: Final = pa.schema(
    [("run_id", pa.string()), ("node", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
)
_TIMELINE: Final = pa.schema(
    [(name, pa.int64()) for name in ("start_ns", "width_ns", "submitted", *OUTCOMES[:-1], "pending")]
)


def examine(spark: SparkSession, extent: Extent, out: Path, say: Callable[[str], None]) -> Findings:
    """Learn from a journal what a report says.

    Args:
        spark: Where to compute.
        extent: What to read of the journal.
        out: Takes the tables ``outcomes``, ``timeline``, ``keys``, ``anomalies``, ``quarantine`` and ``missing``,
            each a directory with Parquet files.
        say: Told what is being done.

    One pass over the journal puts the operations together, and writes them. Three more count records by node and key
    and look for gaps; everything else is read from the operations.
    """
    examination = _Examination(spark, extent, out)
    covered = examination.covered()
    say(f"putting {sum(node.submits for node in covered)} operations together")
    lives = examination.kept(operations(examination.records), "outcomes")
    counts = totals(lives).collect()
    say("measuring durations")
    measured = durations(lives)
    steps = _steps(histogram(measured).collect())
    percentiles = _percentiles(measured, steps)
    say("following the time")
    width_ns, stretches = examination.timeline(lives, covered)
    say("counting by key")
    keys = examination.keys(lives)
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
    """A journal's tables, and what is computed from them into a directory."""

    def __init__(self, spark: SparkSession, extent: Extent, out: Path) -> None:
        self._spark = spark
        self._extent = extent
        self._out = out
        self.records, self.damage = read_journal(spark, extent)

    def covered(self) -> list[Row]:
        """The runs and nodes, in order."""
        return sorted(nodes(self.records).collect(), key=lambda node: (node.run_id, node.node))

    def kept(self, frame: DataFrame, name: str) -> DataFrame:
        """Compute a table once, write it, and go on with what was written."""
        path = self._out / name
        spark_writes(frame, path)
        return self._spark.read.schema(frame.schema).parquet(spark_path(path))

    def timeline(self, lives: DataFrame, covered: Sequence[Row]) -> tuple[int, list[Stretch]]:
        """What happened when, in stretches of a length that suits the whole."""
        began = min((node.first_wall_ns for node in covered), default=0)
        ended = max((node.last_wall_ns for node in covered), default=0)
        width_ns = nice_width_ns(ended - began)
        stretches = filled((row.asDict() for row in timeline(lives, width_ns).collect()), width_ns)
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
        return width_ns, stretches

    def keys(self, lives: DataFrame) -> DataFrame:
        """The keys that were waited for; the table also has those that were only signalled."""
        signals = self.records.where("kind = 'signal'")
        return self.kept(by_key(lives, signals), "keys").where("submitted > 0")

    def anomalies(self, expected: int, covered: Iterable[Row]) -> DataFrame:
        """What belongs to no operation; to look for it is work, and it is known how many records do belong to one."""
        found = anomalies(self.records)
        if sum(node.submits + node.outcomes for node in covered) == expected:
            found = self._spark.createDataFrame([], found.schema)
        return self.kept(found, "anomalies")

    def missing(self, damage: DataFrame, covered: Iterable[Row]) -> list[dict[str, Any]]:
        """Ranges of numbers that no record has: between records, before the first and after the last."""
        found = [row.asDict() for row in missing(self.records).collect()]
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
        (self._out / name).mkdir()
        pq.write_table(table, self._out / name / "part-00000.parquet")


def _by_outcome(counts: Iterable[Row]) -> dict[str, int]:
    by_outcome = dict.fromkeys(OUTCOMES, 0)
    for row in counts:
        by_outcome[row.outcome or "pending"] += row.operations
    return by_outcome


def _held_ns(counts: Iterable[Row], covered: Iterable[Row]) -> int:
    """How long all operations were pending together, those that still are up to their node's last record."""
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
    """The mean of what is pending, from one end of each stretch to the other."""
    if not stretches:
        return None
    ends = [stretch.pending for stretch in stretches]
    return sum((before + after) / 2 for before, after in zip([0, *ends], ends, strict=False)) / len(ends)


def _first(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.limit(_SHOWN).collect()]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
