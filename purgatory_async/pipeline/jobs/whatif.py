"""``purgatory pipeline whatif``: recompute a journal's outcomes with other timeouts, ticks and wheel sizes.

Only the signals between its submission and its deadline decide whether an operation completes. So the time of each node
is cut into slices at least as long as the longest wait: an operation then needs the signals of its own slice and of the
next one, and a slice fits into a worker's memory. Operations without a timeout need all signals to the end and are a
slice of their own.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_async.clock import MAX_TICK, MAX_TIMEOUT, MIN_TICK
from purgatory_async.pipeline.jobs.frame import (
    C,
    journal_option,
    open_option,
    open_page,
    out_option,
    progress,
    spark_options,
    summary,
)
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, buckets_for, deal, unpacked
from purgatory_async.pipeline.operations.coverage import COVER_READ, COVERED, cover
from purgatory_async.pipeline.operations.tables import nodes, paired
from purgatory_async.pipeline.output import Stage, check_fresh, staged
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.shared import any_of, check_shared
from purgatory_async.pipeline.source.extent import Extent, survey
from purgatory_async.pipeline.source.tables import map_records
from purgatory_async.pipeline.spark_tables import spark_schema
from purgatory_async.pipeline.whatif.page import draw, recommend, write_page
from purgatory_async.pipeline.whatif.replay import SIGNALS, SIGNALS_READ, SLICED, WAITS, Slices, replay
from purgatory_async.pipeline.whatif.wheel_sim import Setting, Totals

__all__ = ["Wanted", "command", "run"]

_NS: Final = 1_000_000_000
_SLICE_RECORDS: Final = 200_000  # of a node: few enough for a worker's memory, enough to pay for a slice

_PARTS: Final = pa.schema(
    [(name, pa.int64()) for name in ("setting", *(field.name for field in fields(Totals)))]
)
_SETTINGS: Final = pa.schema(
    [
        *((name, pa.float64()) for name in ("timeout", "tick")),
        *((name, pa.int64()) for name in ("wheel_size", "completed", "expired", "pending")),
        *((name, pa.float64()) for name in ("timeout_rate", "pending_mean", "lateness_mean_ns")),
        ("inserts_per_operation", pa.float64()),
        ("decided_by_lateness", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings to try, in every combination."""

    timeouts: tuple[float, ...]  # in seconds, of every operation that has a timeout
    ticks: tuple[float, ...]  # in seconds
    wheel_sizes: tuple[int, ...]  # buckets of a level

    def combinations(self) -> list[tuple[float, float, int]]:
        """The distinct combinations, the wheel size changing fastest."""
        return list(dict.fromkeys(product(self.timeouts, self.ticks, self.wheel_sizes)))


def run(
    journal: Location | Extent,
    wanted: Wanted,
    out: Path | Stage,
    spark: SparkSession,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Recompute a journal, its directory or the result of `survey`, under every combination.

    A stage, or an empty directory, gets ``settings/``, a table with a row for each, ``figures/``, ``whatif.html`` and
    ``summary.json``. ``say`` is called with each step. Returns the summary.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    say("surveying the nodes")
    found = nodes(map_records(spark, extent, cover, COVER_READ, COVERED)).collect()
    combinations = wanted.combinations()
    settings = [
        Setting(round(timeout * _NS), round(tick * _NS), size) for timeout, tick, size in combinations
    ]
    operations = sum(node.submits for node in found)
    say(f"replaying {operations} operations under {len(settings)} settings")
    dealing = partial(deal, buckets=buckets_for(operations))
    slices = Slices(_slice_ns(settings, found), any(node.untimed for node in found))
    parts = _replays(
        paired(map_records(spark, extent, dealing, DEAL_READ, DEALT), slices.of_operations, SLICED),
        map_records(spark, extent, slices.of_signals, SIGNALS_READ, SLICED),
        {(node.run_id, node.node): node.last_ns for node in found},
        settings,
    ).collect()
    totals = _added_up(parts, len(settings))
    span_ns = sum(node.last_ns - node.first_ns for node in found)
    lines = [
        {"timeout": timeout, "tick": tick, "wheel_size": size, **_figures(total, span_ns)}
        for (timeout, tick, size), total in zip(combinations, totals, strict=True)
    ]
    recommended = recommend(lines)
    say("drawing")
    folder = Stage.of(out).folder
    write_page(lines, recommended, draw(lines, recommended, folder / "figures"), folder / "whatif.html")
    result = {"settings": lines, "recommended": recommended}
    (folder / "settings").mkdir()
    pq.write_table(pa.Table.from_pylist(lines, _SETTINGS), folder / "settings" / "part-00000.parquet")
    (folder / "summary.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


def _replays(
    operations: DataFrame,
    signals: DataFrame,
    last_ns: Mapping[tuple[str, str], int],
    settings: Sequence[Setting],
) -> DataFrame:
    """Replay slices, given the last instant of each run and node; rows of `_PARTS` for each, to be added up."""

    def replay_slice(waiting: pa.Table, signalled: pa.Table) -> pa.Table:
        """Replay one slice on a worker."""
        rows: list[dict[str, Any]] = []
        if waiting.num_rows:
            last = last_ns[waiting["run_id"][0].as_py(), waiting["node"][0].as_py()]
            waits = unpacked(waiting["packed"].to_pylist(), WAITS.empty_table())
            waits = waits.append_column("last_ns", pa.repeat(last, len(waits)))
            found = unpacked(signalled["of_packed"].to_pylist(), SIGNALS.empty_table())
            totals = replay(waits, found, settings)
            rows = [{"setting": place} | asdict(total) for place, total in enumerate(totals)]
        return pa.Table.from_pylist(rows, _PARTS)

    # Renamed, because Spark confuses columns that come from the same journal twice.
    of_signals = signals.toDF(*(f"of_{name}" for name in signals.columns))
    whose = ("run_id", "node", "slice")
    pairs = operations.groupBy(*whose).cogroup(of_signals.groupBy(*(f"of_{name}" for name in whose)))
    return pairs.applyInArrow(replay_slice, spark_schema(_PARTS))


def _slice_ns(settings: Iterable[Setting], found: Iterable[Row]) -> int:
    """At least the longest wait; longer if that would cover few records."""
    longest = max((setting.timeout_ns or 0) + setting.tick_ns for setting in settings)
    full = [
        (node.last_ns - node.first_ns) * _SLICE_RECORDS // (node.submits + node.signals + 1) for node in found
    ]
    return int(max(longest, *full, 1))


def _added_up(parts: Iterable[Row], settings: int) -> list[Totals]:
    totals = [Totals()] * settings
    for part in parts:
        more = part.asDict()
        totals[more.pop("setting")] += Totals(**more)
    return totals


def _figures(totals: Totals, span_ns: int) -> dict[str, Any]:
    return {
        "completed": totals.completed,
        "expired": totals.expired,
        "pending": totals.pending,
        "timeout_rate": _ratio(totals.expired, totals.operations),
        "pending_mean": _ratio(totals.pending_ns, span_ns),
        "lateness_mean_ns": _ratio(totals.lateness_ns, totals.expired),
        "inserts_per_operation": _ratio(totals.inserts, totals.operations),
        "decided_by_lateness": totals.decided_by_lateness,
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _seconds(low: float, high: float) -> Callable[..., tuple[float, ...]]:
    def check(_: click.Context, __: click.Parameter, values: tuple[float, ...]) -> tuple[float, ...]:
        """Refuse seconds that are out of bounds."""
        for value in values:
            if not low <= value <= high:
                raise click.BadParameter(f"must be from {low:g} to {high:.0f} seconds, got {value!r}")
        return values

    return check


def _repeatable(flag: str, unit: str, explanation: str, **how: Any) -> Callable[[C], C]:
    options: dict[str, Any] = {"type": float, "required": "default" not in how, "show_default": True, **how}
    name = f"{flag[2:].replace('-', '_')}s"
    return click.option(
        flag, name, multiple=True, metavar=unit, help=f"{explanation}; repeatable.", **options
    )


@click.command("whatif")
@journal_option
@out_option
@_repeatable(
    "--timeout",
    "S",
    "In seconds, of every operation that has a timeout",
    callback=_seconds(1e-9, MAX_TIMEOUT),
)
@_repeatable(
    "--tick", "S", "Of the timer, in seconds", default=(0.001,), callback=_seconds(MIN_TICK, MAX_TICK)
)
@_repeatable(
    "--wheel-size", "N", "Buckets of a level of its wheel", default=(256,), type=click.IntRange(2, 2**31 - 1)
)
@open_option
@spark_options
def command(
    *, journal: Location, out: Location, opens: bool, master: str | None, remote: str | None, **tried: Any
) -> None:
    """Recompute how a journal's operations end with other timeouts, ticks and wheel sizes: every combination.

    \b
    Example:
      purgatory pipeline whatif --journal journal --out whatif --timeout 0.1 --timeout 0.2 --timeout 1 \\
          --tick 0.001 --tick 0.01 --wheel-size 64 --wheel-size 256
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    check_fresh(out)
    extent = survey(journal)
    with (
        progress("whatif") as say,
        staged(out) as stage,
        open_session("purgatory whatif", master=master, remote=remote) as spark,
    ):
        say("starting")
        check_shared(spark, {"--journal": any_of(extent)}, {})  # only this process writes
        found = run(extent, Wanted(**tried), stage, spark, say)
    if opens:
        open_page(out / "whatif.html")
    summary(found)
