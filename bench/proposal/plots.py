"""The proposal's plots, with the library's line in them: what is measured against the rate that is offered.

Each figure has the low case on the left and the high one on the right, and a row for each event loop, all to one scale.
Contestants differ in colour (the palette of Okabe and Ito), marker and dash; the library's lines are blue
and thick. Lines join medians, bars span all readings. The flood stands apart, on the right.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from bench.proposal.lost import OURS
from bench.proposal.point import CASES, FLOOD, HARNESS, Point, Reading
from bench.proposal.results import Range, Readings, range_of, takes_callbacks

__all__ = ["KINDS", "MEASURES", "Drawn", "Measure", "draw"]

KINDS: Final[dict[str, str]] = {"callback": "answered by a callback", "awaited": "awaited by a task"}
"""The two ways in which a request ends, which are not compared with each other."""

_INK, _MUTED, _GRID, _BLUE = "#1c2430", "#5d6776", "#e6e9ee", "#0060a8"
# Colour, marker, dash.
_LOOKS: Final[dict[str, tuple[str, str, Any]]] = {
    "purgatory_async": (_BLUE, "o", "-"),
    "purgatory_async, pure": ("#56b4e9", "o", "-"),
    "purgatory_async/20": ("#56b4e9", "o", (0, (4, 1.5))),
    "purging_wheel": ("#d55e00", "s", "-"),
    "weak_watchers": ("#cc79a7", "D", "-"),
    "delay_queue": ("#e69f00", "^", "-"),
    "hashed": ("#009e73", "v", "-"),
    "call_later": ("#4d4d4d", "X", "-"),
    "wait": (_BLUE, "o", "-"),
    "operation": (_BLUE, "P", (0, (4, 1.5))),
    "wait, pure": ("#56b4e9", "o", "-"),
    "operation, pure": ("#56b4e9", "P", (0, (4, 1.5))),
    "call_later_future": ("#4d4d4d", "X", "-"),
    "asyncio_timeout": ("#d55e00", "s", "-"),
    "wait_for_event": ("#e69f00", "^", "-"),
    "condition": ("#cc79a7", "D", "-"),
    "anyio": ("#009e73", "v", "-"),
    HARNESS: ("#9aa3af", "", (0, (1, 1.6))),
}
_ANY_OTHER: Final = ("#8a7a3a", "d", (0, (2, 1)))

_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": "#c3cad3",
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "grid.color": _GRID,
    "xtick.color": "#c3cad3",
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "ytick.left": False,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bench.proposal",  # the same readings make the same file
}
_THICK, _THIN = 2.6, 1.3
_BESIDE = 1.9  # times the highest rate: where the flood stands


@dataclass(frozen=True, slots=True)
class Measure:
    """What a figure shows.

    Args:
        name: The name of its files.
        title: The title of the figure.
        axis: What the vertical axis counts.
        value: Returns a reading's value at a point.
        scale: The scale of the vertical axis: linear, log, or symlog where 0 is among the values.
        linear_to: Up to where a symlog axis is linear.
        floor: Show what the harness alone takes.
    """

    name: str
    title: str
    axis: str
    value: Callable[[Point, Reading], float | None]
    scale: str = "linear"
    linear_to: float = 1.0
    floor: bool = False


MEASURES: Final = (
    Measure(
        "throughput",
        "Throughput reached against offered",
        "requests taken a second",
        lambda _, reading: reading.rate_reached,
        scale="log",
    ),
    Measure(
        "cpu",
        "Processor time",
        "CPU seconds per million requests",
        lambda _, reading: reading.cpu_s_per_million,
        floor=True,
    ),
    Measure(
        "gc",
        "Garbage collection",
        "milliseconds of GC per million requests",
        lambda point, reading: reading.gc_ms / point.requests * 1e6,
        scale="symlog",
        linear_to=10,
        floor=True,
    ),
    Measure(
        "lateness-p50",
        "Lateness of expirations, median",
        "milliseconds after the deadline",
        lambda _, reading: reading.lateness_ms_p50,
    ),
    Measure(
        "lateness-p99",
        "Lateness of expirations, 99th percentile",
        "milliseconds after the deadline",
        lambda _, reading: reading.lateness_ms_p99,
        scale="symlog",
    ),
    Measure(
        "lateness-p999",
        "Lateness of expirations, 99.9th percentile",
        "milliseconds after the deadline",
        lambda _, reading: reading.lateness_ms_p999,
        scale="symlog",
    ),
    Measure(
        "held",
        "Memory held after completion",
        "MiB more than before the first request",
        lambda _, reading: reading.held_mib,
        scale="symlog",
        floor=True,
    ),
    Measure(
        "entries",
        "Watched entries left behind",
        "entries when all requests had ended",
        lambda _, reading: reading.entries_left,
        scale="symlog",
        linear_to=10,
    ),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure that has been drawn.

    Attributes:
        title: What it shows, of which kind of requests.
        path: The SVG file.
    """

    title: str
    path: Path


def draw(readings: Readings, directory: Path) -> list[Drawn]:
    """Draw every figure that has something to show, one for each setting of the collector that was measured.

    Args:
        readings: The readings of all points.
        directory: Takes ``<kind>-<measure>.svg`` of each, with the collector at the end of the name if it is not the
            default one; is made.

    Returns:
        The figures, in the order of `MEASURES`, callbacks first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for measure in MEASURES:
        for kind in KINDS:
            for collector in sorted({point.collector for point in readings}):
                shown = _shown(readings, kind, collector)
                if any(point.contestant != HARNESS for point in shown):
                    with mpl.rc_context(_STYLE):
                        drawn.append(_drawn(measure, kind, collector, shown, directory))
    return drawn


def _shown(readings: Readings, kind: str, collector: str) -> Readings:
    return {
        point: of_point
        for point, of_point in readings.items()
        if point.collector == collector
        and (point.contestant == HARNESS or takes_callbacks(point) == (kind == "callback"))
    }


def _drawn(measure: Measure, kind: str, collector: str, readings: Readings, directory: Path) -> Drawn:
    loops = list(dict.fromkeys(point.loop for point in readings))
    cases = [case for case in CASES if any(point.case == case for point in readings)]
    rates = sorted({point.rate for point in readings} - {FLOOD})
    figure = Figure(figsize=(10, 2.75 * len(loops) + 1.0), layout="constrained")
    panels = figure.subplots(len(loops), len(cases), sharex=True, sharey=True, squeeze=False)
    for row, loop in zip(panels, loops, strict=True):
        for axes, case in zip(row, cases, strict=True):
            of_panel = {p: each for p, each in readings.items() if (p.loop, p.case) == (loop, case)}
            _panel(axes, measure, of_panel, rates)
            half = "8 % time out" if case == "low" else "half time out"
            axes.set_title(f"{case} latency ({half}), {loop}")
        row[0].set_ylabel(measure.axis)
    if measure.scale == "linear":
        panels[0][0].set_ylim(
            bottom=0
        )  # last: a limit that is set stops the scale from growing with the lines
    for axes in panels[-1]:
        axes.set_xlabel("requests offered a second")
    plain = collector == "default"
    title = f"{measure.title}: requests {KINDS[kind]}" + ("" if plain else f", collector by the {collector}")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    handles = {
        label: handle
        for axes in panels.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=5, handlelength=3)
    path = directory / f"{kind}-{measure.name}{'' if plain else f'-{collector}'}.svg"
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    return Drawn(title, path)


def _panel(axes: Axes, measure: Measure, readings: Readings, rates: Sequence[int]) -> None:
    flood_at = max(rates, default=1) * _BESIDE
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([*rates, flood_at]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: "flood" if value == flood_at else _short(value))
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(flood_at / _BESIDE**0.5, color="#c3cad3", linewidth=0.8)
    _scale(axes, measure)
    if measure.name == "throughput" and rates:
        axes.plot(rates, rates, color="#c3cad3", linewidth=6, alpha=0.5, solid_capstyle="round", zorder=1)
    for name in sorted({point.name for point in readings}, key=_rank):
        if name != HARNESS or measure.floor:
            _line(axes, measure, name, readings, flood_at)


def _line(axes: Axes, measure: Measure, name: str, readings: Readings, flood_at: float) -> None:
    """One contestant: its medians joined, its readings' ranges, and its flood."""
    colour, marker, dash = _LOOKS.get(name, _ANY_OTHER)
    ours = name in OURS
    found = sorted(
        ((point.rate, spread) for point, spread in _ranges(measure, name, readings)), key=lambda each: each[0]
    )
    look: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "markersize": 5.5 if ours else 4,
        "zorder": 5 if ours else 3,
    }
    steady = [(rate, spread) for rate, spread in found if rate != FLOOD]
    axes.plot(
        [rate for rate, _ in steady],
        [spread.median for _, spread in steady],
        label=name,
        linewidth=_THICK if ours else _THIN,
        linestyle=dash,
        **look,
    )
    places = [flood_at if rate == FLOOD else rate for rate, _ in found]
    spreads = [spread for _, spread in found]
    axes.vlines(
        places,
        [spread.low for spread in spreads],
        [spread.high for spread in spreads],
        color=colour,
        linewidth=1,
        alpha=0.6,
        zorder=2,
    )
    flood = [spread.median for rate, spread in found if rate == FLOOD]
    axes.plot([flood_at] * len(flood), flood, linestyle="none", **{**look, "marker": marker or "_"})


def _ranges(measure: Measure, name: str, readings: Readings) -> Iterable[tuple[Point, Range]]:
    for point, of_point in readings.items():
        if point.name == name:
            spread = range_of(of_point, lambda reading, point=point: measure.value(point, reading))  # type: ignore[misc]  # mypy takes a default for a required argument
            if spread is not None:
                yield point, spread


def _scale(axes: Axes, measure: Measure) -> None:
    if measure.scale == "symlog":
        axes.set_yscale("symlog", linthresh=measure.linear_to)
    else:
        axes.set_yscale(measure.scale)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _rank(name: str) -> tuple[bool, int]:
    """Ours first, then in the order of the looks."""
    names = list(_LOOKS)
    return name.partition(",")[0].partition("/")[0] not in OURS, names.index(name) if name in names else len(
        names
    )


def _short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
