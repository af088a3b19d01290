"""Draws a report's figures."""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, PercentFormatter

from purgatory_async.pipeline.pages import drawing
from purgatory_async.pipeline.pages.drawing import COLOURS, COUNT, HALF, WIDE, Size, legend
from purgatory_async.pipeline.pages.formats import duration, number, printable
from purgatory_async.pipeline.report.findings import OUTCOMES, Findings, Step, Stretch

__all__ = ["draw"]

_MOST_KEYS: Final = 12
_USUAL: Final = 0.95  # of the stretches are no higher than what is usual
_FLATTENS: Final = 3  # times that, a peak leaves too little of the figure to the rest
_CLOSE: Final = 0.12  # of the figure's width, which the value of a peak takes
_UNITS_S: Final = (
    (86_400, "days"),
    (3_600, "hours"),
    (60, "minutes"),
    (1, "seconds"),
    (0.001, "milliseconds"),
)


def draw(findings: Findings, directory: Path) -> dict[str, str]:
    """Draw every figure that has data.

    Args:
        findings: What to draw.
        directory: Created; gets ``<name>.svg`` and ``<name>.png`` of each figure.

    Returns:
        The SVG of each figure for a page, by name.
    """
    charts = {
        name: (partial(paint, findings), size)
        for name, (has_any, paint, size) in _FIGURES.items()
        if has_any(findings)
    }
    return drawing.draw(charts, directory)


# Each of these paints one figure.


def _pending(findings: Findings, axes: Axes) -> None:
    edges = _edges(axes, findings)
    pending = [0, *(stretch.pending for stretch in findings.stretches)]
    axes.fill_between(edges, pending, color=COLOURS["pending"], alpha=0.18, linewidth=0)
    axes.plot(edges, pending, color=COLOURS["pending"], linewidth=1.6)
    mean = findings.summary["pending_mean"]
    if mean is not None:
        label = f"mean {number(round(mean, 1))}"
        axes.axhline(mean, color=COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=label)
        legend(axes)
    _end_above_usual(axes, edges, pending, mean or 0)
    axes.set_ylabel("operations pending")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(COUNT)


def _rates(findings: Findings, axes: Axes) -> None:
    edges = _edges(axes, findings)
    width_s = findings.width_ns / 1e9
    base = [0.0] * len(findings.stretches)
    for outcome in OUTCOMES[:-1]:
        rates = [stretch.ended[outcome] / width_s for stretch in findings.stretches]
        if any(rates):
            top = [low + rate for low, rate in zip(base, rates, strict=True)]
            axes.stairs(
                top, edges, baseline=base, fill=True, color=COLOURS[outcome], alpha=0.85, label=outcome
            )
            base = top
    submitted = [stretch.submitted / width_s for stretch in findings.stretches]
    axes.stairs(submitted, edges, color=COLOURS["ink"], linewidth=1.1, label="submitted")
    _end_above_usual(axes, edges[:-1], list(map(max, base, submitted)))
    axes.set_ylabel("operations per second")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(COUNT)
    legend(axes)


def _latency(findings: Findings, axes: Axes) -> None:
    _cumulated(axes, findings.latency, COLOURS["completed"])
    beside = {"p50": ("left", "center", 9), "p95": ("right", "top", -8), "p99": ("right", "bottom", -8)}
    for name, (side, place, gap) in beside.items():
        value, height = max(findings.summary["latency_ns"][name], 1), int(name[1:]) / 100
        axes.plot([value], [height], "o", color=COLOURS["ink"], markersize=4.5, zorder=5)
        axes.annotate(
            f"{name}  {duration(value)}",
            (value, height),
            xytext=(gap, 0),
            textcoords="offset points",
            ha=side,
            va=place,
            fontsize=9,
            color=COLOURS["ink"],
        )
    axes.set_xlabel("from submission to completion")
    axes.set_ylabel("share of those completed")


def _cumulated(axes: Axes, steps: Sequence[Step], colour: str) -> None:
    whole = sum(step.count for step in steps)
    edges, heights, below = [steps[0].low_ns], [0.0], 0
    for step in steps:
        below += step.count
        edges.append(step.high_ns)
        heights.append(below / whole)
    axes.fill_between(edges, heights, color=colour, alpha=0.14, linewidth=0)
    axes.plot(edges, heights, color=colour, linewidth=1.8)
    axes.set_ylim(0, 1.12)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    _log_durations(axes)


def _lateness(findings: Findings, axes: Axes) -> None:
    lows = [step.low_ns for step in findings.lateness]
    widths = [step.high_ns - step.low_ns for step in findings.lateness]
    counts = [step.count for step in findings.lateness]
    axes.bar(lows, counts, widths, align="edge", color=COLOURS["expired"], linewidth=0)
    _log_durations(axes)
    axes.set_xlabel("from submission plus timeout to expiration")
    axes.set_ylabel("operations expired")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(COUNT)


def _keys(findings: Findings, axes: Axes) -> None:
    rows = findings.keys[:_MOST_KEYS][::-1]
    names = [printable(row["key"]) for row in rows]
    base = [0] * len(rows)
    for outcome in OUTCOMES:
        counts = [row[outcome] for row in rows]
        if any(counts):
            axes.barh(range(len(rows)), counts, left=base, height=0.68, color=COLOURS[outcome], label=outcome)
            base = [low + count for low, count in zip(base, counts, strict=True)]
    axes.set_yticks(range(len(rows)), [name if len(name) <= 32 else name[:31] + "…" for name in names])  # noqa: PLR2004 - what fits beside the bars
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("operations that watched the key")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(COUNT)
    legend(axes)


_FIGURES: Final[dict[str, tuple[Callable[[Findings], bool], Callable[[Findings, Axes], None], Size]]] = {
    "pending": (lambda findings: bool(findings.stretches), _pending, WIDE),
    "rates": (lambda findings: bool(findings.stretches), _rates, WIDE),
    "latency": (lambda findings: bool(findings.latency), _latency, HALF),
    "lateness": (lambda findings: bool(findings.lateness), _lateness, HALF),
    "keys": (lambda findings: bool(findings.keys), _keys, WIDE),
}


def _edges(axes: Axes, findings: Findings) -> list[float]:
    """The edges of the stretches since the start, in a suitable unit, with which it labels the axis."""
    stretches: Sequence[Stretch] = findings.stretches
    length_s = len(stretches) * findings.width_ns / 1e9
    size, unit = next((each for each in _UNITS_S if length_s >= 2 * each[0]), _UNITS_S[-1])
    axes.set_xlabel(f"{unit} since the start")
    axes.grid(visible=False, axis="x")
    edges = [place * findings.width_ns / 1e9 / size for place in range(len(stretches) + 1)]
    axes.set_xlim(edges[0], edges[-1])
    return edges


def _end_above_usual(axes: Axes, places: Sequence[float], heights: Sequence[float], least: float = 0) -> None:
    """End the vertical axis above the usual heights if the highest flattens them; what is cut off gets its value."""
    usual = max(sorted(heights)[ceil(_USUAL * len(heights)) - 1], least)
    if not usual or max(heights) <= _FLATTENS * usual:
        axes.set_ylim(bottom=0)
        return
    end = 1.25 * usual
    axes.set_ylim(0, end)
    for peaks in _cut(heights, end):
        on_the_left = peaks[0] < len(heights) / 2
        axes.annotate(
            f"peak {number(max(heights[peak] for peak in peaks))} ↑",
            (places[peaks[-1] if on_the_left else peaks[0]], end),
            xytext=(7 if on_the_left else -7, -3),
            textcoords="offset points",
            ha="left" if on_the_left else "right",
            va="top",
            fontsize=9,
        )


def _cut(heights: Sequence[float], end: float) -> list[list[int]]:
    """The places of heights above ``end``, those close together in one list."""
    peaks: list[list[int]] = []
    for place, height in enumerate(heights):
        if height > end:
            if not peaks or place - peaks[-1][-1] > _CLOSE * len(heights):
                peaks.append([])
            peaks[-1].append(place)
    return peaks


def _log_durations(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda _, __: ""))
    axes.tick_params(axis="x", which="minor", bottom=False)
