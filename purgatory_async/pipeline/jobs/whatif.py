"""``purgatory pipeline whatif``: recompute a journal's outcomes with other timeouts, ticks and wheel sizes.

Only the signals between its submission and its deadline decide whether an operation completes. So the time of each node
is cut into slices at least as long as the longest wait: an operation then needs the signals of its own slice and of the
next one, and a slice fits into a worker's memory. Operations without a timeout, and those whose deadline was moved, may
need all signals to the end and are a slice of their own.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    Seconds,
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
from purgatory_async.pipeline.whatif.prefixes import SHOWN, Prefix, recommend_each
from purgatory_async.pipeline.whatif.replay import (
    SIGNALS,
    SIGNALS_READ,
    SLICED,
    WAITS,
    Slices,
    recorded,
    replay_prefixes,
)
from purgatory_async.pipeline.whatif.wheel_sim import NEVER, Setting, Totals, Waits, simulate

_NS: Final = 1_000_000_000
_SLICE_RECORDS: Final = 200_000  # of a node: few enough for a worker's memory, enough to pay for a slice

# Of a slice: the sums of all its operations (``whole``) or of a prefix, under a setting. Sums of durations can exceed
# 64 bits.
_PARTS: Final = pa.schema(
    [
        ("whole", pa.bool_()),
        ("prefix", pa.string()),
        ("longest_ns", pa.int64()),
        ("setting", pa.int64()),
        *(
            (each.name, pa.decimal128(38, 0) if each.name.endswith("_ns") else pa.int64())
            for each in fields(Totals)
        ),
    ]
)
_FIGURES: Final = (
    *((name, pa.float64()) for name in ("timeout", "tick")),
    *((name, pa.int64()) for name in ("wheel_size", "completed", "expired", "pending")),
    *((name, pa.float64()) for name in ("timeout_rate", "pending_mean", "lateness_mean_ns")),
    ("inserts_per_operation", pa.float64()),
    *((name, pa.int64()) for name in ("decided_by_lateness", "guessed")),
)
_SETTINGS: Final = pa.schema(_FIGURES)
_PREFIXES: Final = pa.schema(
    [
        ("prefix", pa.string()),
        ("operations", pa.int64()),
        ("recorded_timeout", pa.float64()),
        *_FIGURES,
        ("recommended", pa.bool_()),
    ]
)


@dataclass(slots=True)
class _Sums:
    """Sums of operations under each setting."""

    totals: list[Totals]
    longest_ns: int = 0  # the longest timeout that they had

    @property
    def operations(self) -> int:
        """How many they are."""
        return self.totals[0].operations

    @property
    def longest_s(self) -> float | None:
        """Their longest timeout in seconds; None if none had one."""
        return self.longest_ns / _NS if self.longest_ns else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings to try, in every combination."""

    timeouts: tuple[float, ...]  # in seconds, of every operation that has a timeout
    ticks: tuple[float, ...]  # in seconds
    wheel_sizes: tuple[int, ...]  # buckets of a level
    by_prefix: bool = False  # whether to sum the operations of each prefix of a key, too

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
    ``summary.json``; by prefix also ``prefixes/``, with a row for each prefix and setting. ``say`` is called with each
    step. Returns the summary.
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
    slices = Slices(_slice_ns(settings, found), any(node.untimed or node.reschedules for node in found))
    parts = _replays(
        paired(map_records(spark, extent, dealing, DEAL_READ, DEALT), slices.of_operations, SLICED),
        map_records(spark, extent, slices.of_signals, SIGNALS_READ, SLICED),
        {(node.run_id, node.node): node.last_ns for node in found},
        settings,
        by_prefix=wanted.by_prefix,
    ).collect()
    whole, sums = _added_up(parts, len(settings))
    span_ns = sum(node.last_ns - node.first_ns for node in found)
    lines = _lines(combinations, whole.totals, span_ns)
    recommended = recommend(lines)
    every = (
        Prefix(name, own.operations, own.longest_s, _lines(combinations, own.totals, span_ns))
        for name, own in sums.items()
    )
    prefixes = recommend_each(every, recommended)
    shown = [prefix.summary() for prefix in prefixes[:SHOWN]]
    say("drawing")
    folder = Stage.of(out).folder
    figures = draw(lines, recommended, folder / "figures")
    write_page(lines, recommended, figures, folder / "whatif.html", shown)
    _write(lines, _SETTINGS, folder / "settings")
    result = {"settings": lines, "recommended": recommended}
    if wanted.by_prefix:
        _write((row for prefix in prefixes for row in prefix.rows()), _PREFIXES, folder / "prefixes")
        result["prefixes"] = shown
    (folder / "summary.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


def _write(rows: Iterable[Mapping[str, Any]], schema: pa.Schema, table: Path) -> None:
    table.mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), table / "part-00000.parquet")


def _replays(
    operations: DataFrame,
    signals: DataFrame,
    last_ns: Mapping[tuple[str, str], int],
    settings: Sequence[Setting],
    *,
    by_prefix: bool,
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
            rows = [*_summed(waits, found, settings, by_prefix=by_prefix)]
        return pa.Table.from_pylist(rows, _PARTS)

    # Renamed, because Spark confuses columns that come from the same journal twice.
    of_signals = signals.toDF(*(f"of_{name}" for name in signals.columns))
    whose = ("run_id", "node", "slice")
    pairs = operations.groupBy(*whose).cogroup(of_signals.groupBy(*(f"of_{name}" for name in whose)))
    return pairs.applyInArrow(replay_slice, spark_schema(_PARTS))


def _summed(
    waiting: pa.Table, signalled: pa.Table, settings: Sequence[Setting], *, by_prefix: bool
) -> Iterator[dict[str, Any]]:
    """Replay operations and signals of a run and node; rows of `_PARTS`."""
    waits = recorded(waiting, signalled)
    groups: list[tuple[dict[str, Any], Waits, list[Totals]]] = [
        ({"whole": True}, waits, simulate(waits, settings))
    ]
    if by_prefix:
        found = replay_prefixes(waits, waiting["keys"], settings)
        groups += [({"whole": False, "prefix": name}, own, totals) for name, own, totals in found]
    for group, own, totals in groups:
        longest_ns = int(own.timeout_ns[own.timeout_ns < NEVER].max(initial=0))
        for place, total in enumerate(totals):
            yield {**group, "longest_ns": longest_ns, "setting": place, **asdict(total)}


def _slice_ns(settings: Iterable[Setting], found: Iterable[Row]) -> int:
    """At least the longest wait; longer if that would cover few records."""
    longest = max((setting.timeout_ns or 0) + setting.tick_ns for setting in settings)
    full = [
        (node.last_ns - node.first_ns) * _SLICE_RECORDS // (node.submits + node.signals + 1) for node in found
    ]
    return int(max(longest, *full, 1))


def _added_up(parts: Iterable[Row], settings: int) -> tuple[_Sums, dict[str | None, _Sums]]:
    """The sums of all operations, and of each prefix."""
    whole = _Sums([Totals()] * settings)
    prefixes: dict[str | None, _Sums] = {}
    for part in parts:
        more = part.asDict()
        prefix = more.pop("prefix")
        own = whole if more.pop("whole") else prefixes.setdefault(prefix, _Sums([Totals()] * settings))
        own.longest_ns = max(own.longest_ns, more.pop("longest_ns"))
        own.totals[more.pop("setting")] += Totals(**{name: int(value) for name, value in more.items()})
    return whole, prefixes


def _lines(
    combinations: Iterable[tuple[float, float, int]], totals: Iterable[Totals], span_ns: int
) -> list[dict[str, Any]]:
    """The figures of each setting."""
    return [
        {"timeout": timeout, "tick": tick, "wheel_size": size, **_figures(each, span_ns)}
        for (timeout, tick, size), each in zip(combinations, totals, strict=True)
    ]


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
        "guessed": totals.guessed,
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
    options: dict[str, Any] = {
        "type": Seconds(),
        "required": "default" not in how,
        "show_default": True,
        **how,
    }
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
    "Of every operation that has a timeout: seconds, or text such as 250ms or 5m",
    callback=_seconds(1e-9, MAX_TIMEOUT),
)
@_repeatable(
    "--tick",
    "S",
    "Of the timer: seconds, or text such as 10ms",
    default=(0.001,),
    callback=_seconds(MIN_TICK, MAX_TICK),
)
@_repeatable(
    "--wheel-size", "N", "Buckets of a level of its wheel", default=(256,), type=click.IntRange(2, 2**31 - 1)
)
@click.option(
    "--by",
    "by_prefix",
    type=click.Choice(["prefix"]),
    callback=lambda _, __, value: value is not None,
    help="Recommend a timeout for each prefix of a key, too: the part before its first : or /.",
)
@open_option
@spark_options
def command(
    *, journal: Location, out: Location, opens: bool, master: str | None, remote: str | None, **tried: Any
) -> None:
    """Recompute how a journal's operations end with other timeouts, ticks and wheel sizes: every combination.

    How long an expired operation would have taken is not known. So what is said of a timeout longer than it had is
    partly a guess, and says so.

    \b
    Example:
      purgatory pipeline whatif --journal journal --out whatif --timeout 0.1 --timeout 0.2 --timeout 1 \\
          --tick 0.001 --tick 0.01 --wheel-size 64 --wheel-size 256
      purgatory pipeline whatif --journal journal --out prefixes --by prefix --timeout 1 --timeout 60 --timeout 3600
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    check_fresh(out)
    extent = survey(journal)
    with (
        progress("whatif") as say,
        staged(out) as stage,
        open_session("purgatory whatif", master=master, remote=remote, short=extent.small) as spark,
    ):
        say("starting")
        check_shared(spark, {"--journal": any_of(extent)}, {})  # only this process writes
        found = run(extent, Wanted(**tried), stage, spark, say)
    if opens:
        open_page(out / "whatif.html")
    summary(found)
