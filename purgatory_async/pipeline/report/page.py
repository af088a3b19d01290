"""Writes a report as a page, and draws its figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, PercentFormatter

from purgatory_async.pipeline.pages import drawing
from purgatory_async.pipeline.pages.document import duration, number, printable, write_document
from purgatory_async.pipeline.pages.drawing import COLOURS, HALF, WIDE, label, legend
from purgatory_async.pipeline.report.findings import Findings
from purgatory_async.pipeline.report.sums import OUTCOMES

_FEW: Final = 10  # listed missing ranges, and nodes
_MOST_KEYS: Final = 12
_NAME: Final = 32  # characters of a key that fit beside the bars
_USUAL: Final = 0.95  # of the stretches are no higher than what is usual
_FLATTENS: Final = 3  # times that, a peak leaves too little of the figure to the rest
_CLOSE: Final = 0.12  # of the figure's width, which the value of a peak takes
_UNITS_S: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}


def write_page(findings: Findings, figures: Mapping[str, str], path: Path) -> None:
    """Write the page; ``figures`` are SVG by name, from `draw`."""
    rows = [*findings.keys, *findings.prefixes]
    seen = [name for name in OUTCOMES if any(row[name] for row in rows)]
    write_document(
        "report.html",
        path,
        findings=findings,
        figures=figures,
        few=_FEW,
        outcomes=OUTCOMES,
        runs=len({node["run_id"] for node in findings.nodes}),
        places=len({node["node"] for node in findings.nodes}),
        lost=sum(gap["last"] - gap["first"] + 1 for gap in findings.summary["missing"]),
        counts=[
            ("operations", "submitted", "number"),
            *((name, name, "number") for name in (*seen, "signals")),
        ],
        prefixes=[dict(row, share=row["expired"] / row["submitted"]) for row in findings.prefixes],
        anomalies=[dict(row, record=row["outcome"] or row["kind"]) for row in findings.anomalies],
        nodes=[dict(node, span_ns=node["last_ns"] - node["first_ns"]) for node in findings.nodes[:_FEW]],
    )


def draw(findings: Findings, directory: Path) -> dict[str, str]:
    """Draw every figure that has data, as `drawing.draw` does; returns the SVG for a page, by name."""
    figures: dict[str, tuple[Sequence[object], Callable[[Findings, Axes], None], drawing.Size]] = {
        "pending": (findings.stretches, _pending, WIDE),
        "rates": (findings.stretches, _rates, WIDE),
        "latency": (findings.latency, _latency, HALF),
        "lateness": (findings.lateness, _lateness, HALF),
        "keys": (findings.keys, _keys, WIDE),
    }
    charts = {name: (partial(paint, findings), size) for name, (data, paint, size) in figures.items() if data}
    return drawing.draw(charts, directory)


def _pending(findings: Findings, axes: Axes) -> None:
    edges = _edges(axes, findings)
    pending = [0, *(stretch.pending for stretch in findings.stretches)]
    _area(axes, edges, pending, "pending")
    mean = findings.summary["pending_mean"]
    if mean is not None:
        axes.axhline(
            mean, color=COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=f"mean {number(mean)}"
        )
        legend(axes)
    _end_above_usual(axes, edges, pending, mean or 0)
    label(axes.yaxis, "operations pending", whole=True)


def _rates(findings: Findings, axes: Axes) -> None:
    edges = _edges(axes, findings)
    per_second = 1e9 / findings.width_ns
    base = np.zeros(len(findings.stretches))
    for outcome in OUTCOMES[:-1]:
        rates = per_second * np.array([stretch.ended[outcome] for stretch in findings.stretches])
        if rates.any():
            style: Any = {"fill": True, "color": COLOURS[outcome], "alpha": 0.85, "label": outcome}
            axes.stairs(base + rates, edges, baseline=base, **style)
            base = base + rates
    submitted = per_second * np.array([stretch.submitted for stretch in findings.stretches])
    axes.stairs(submitted, edges, color=COLOURS["ink"], linewidth=1.1, label="submitted")
    _end_above_usual(axes, edges[:-1], np.maximum(base, submitted).tolist())
    label(axes.yaxis, "operations per second")
    legend(axes)


def _latency(findings: Findings, axes: Axes) -> None:
    counts = [step.count for step in findings.latency]
    edges = [findings.latency[0].low_ns, *(step.high_ns for step in findings.latency)]
    _area(axes, edges, [below / sum(counts) for below in accumulate(counts, initial=0)], "completed")
    _log_durations(axes, "from submission to completion")
    axes.set(ylim=(0, 1.12), yticks=[0, 0.25, 0.5, 0.75, 1], ylabel="share of those completed")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    beside = {"p50": ("left", "center", 9), "p95": ("right", "top", -8), "p99": ("right", "bottom", -8)}
    for name, (side, place, gap) in beside.items():
        value, height = max(findings.summary["latency_ns"][name], 1), int(name[1:]) / 100
        axes.plot([value], [height], "o", color=COLOURS["ink"], markersize=4.5, zorder=5)
        text = f"{name}  {duration(value)}"
        _annotate(axes, text, (value, height), (gap, 0), ha=side, va=place, color=COLOURS["ink"])


def _lateness(findings: Findings, axes: Axes) -> None:
    lows = [step.low_ns for step in findings.lateness]
    widths = [step.high_ns - step.low_ns for step in findings.lateness]
    counts = [step.count for step in findings.lateness]
    axes.bar(lows, counts, widths, align="edge", color=COLOURS["expired"], linewidth=0)
    _log_durations(axes, "from submission plus timeout to expiration")
    label(axes.yaxis, "operations expired", whole=True)


def _keys(findings: Findings, axes: Axes) -> None:
    rows = findings.keys[:_MOST_KEYS][::-1]
    places, base = np.arange(len(rows)), np.zeros(len(rows))
    for outcome in OUTCOMES:
        counts = np.array([row[outcome] for row in rows])
        if counts.any():
            axes.barh(places, counts, left=base, height=0.68, color=COLOURS[outcome], label=outcome)
            base = base + counts
    axes.set_yticks(places, [printable(row["key"], _NAME) for row in rows])
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.grid(visible=False, axis="y")
    label(axes.xaxis, "operations that watched the key", ticks=6, whole=True)
    legend(axes)


def _area(axes: Axes, places: Sequence[float], heights: Sequence[float], colour: str) -> None:
    axes.fill_between(places, heights, color=COLOURS[colour], alpha=0.16, linewidth=0)
    axes.plot(places, heights, color=COLOURS[colour], linewidth=1.7)


def _annotate(
    axes: Axes, text: str, point: tuple[float, float], points_away: tuple[float, float], **style: Any
) -> None:
    axes.annotate(text, point, xytext=points_away, textcoords="offset points", fontsize=9, **style)


def _edges(axes: Axes, findings: Findings) -> list[float]:
    """The edges of the stretches since the start, in a suitable unit, with which it labels the axis."""
    width_s, count = findings.width_ns / 1e9, len(findings.stretches)
    unit = next((unit for unit, size in _UNITS_S.items() if count * width_s >= 2 * size), "milliseconds")
    edges = [place * width_s / _UNITS_S[unit] for place in range(count + 1)]
    axes.set(xlabel=f"{unit} since the start", xlim=(edges[0], edges[-1]))
    axes.grid(visible=False, axis="x")
    return edges


def _end_above_usual(axes: Axes, places: Sequence[float], heights: Sequence[float], least: float = 0) -> None:
    """End the vertical axis above the usual heights if the highest flattens them; label each peak that is cut off."""
    usual = max(sorted(heights)[ceil(_USUAL * len(heights)) - 1], least)
    if not usual or max(heights) <= _FLATTENS * usual:
        axes.set_ylim(bottom=0)
        return
    end = 1.25 * usual
    axes.set_ylim(0, end)
    for peaks in _cut(heights, end):
        text = f"peak {number(max(heights[peak] for peak in peaks))} ↑"
        if peaks[0] < len(heights) / 2:
            _annotate(axes, text, (places[peaks[-1]], end), (7, -3), ha="left", va="top")
        else:
            _annotate(axes, text, (places[peaks[0]], end), (-7, -3), ha="right", va="top")


def _cut(heights: Sequence[float], end: float) -> list[list[int]]:
    """The places of heights above ``end``, those close together in one list."""
    peaks: list[list[int]] = []
    for place, height in enumerate(heights):
        if height > end:
            if not peaks or place - peaks[-1][-1] > _CLOSE * len(heights):
                peaks.append([])
            peaks[-1].append(place)
    return peaks


def _log_durations(axes: Axes, text: str) -> None:
    axes.set(xscale="log", xlabel=text)
    axes.xaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.xaxis.set_major_formatter(lambda value, _: duration(value))
    axes.minorticks_off()
