"""Draws a report's figures, as files and as inline SVG for its page.

The colours are safe for colour-blind readers and mean the same in every figure. In a page they are variables of its
style sheet, so a figure is light or dark as the page is.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, PercentFormatter

from purgatory_async.pipeline.report.findings import OUTCOMES, Findings, Step, Stretch
from purgatory_async.pipeline.report.formats import duration, number, printable

__all__ = ["COLOURS", "draw"]

# For white pages, by the names of the style sheet's variables, which also has dark ones.
COLOURS: Final = {
    "ink": "#1c2430",
    "muted": "#667080",
    "grid": "#e3e7ec",
    "accent": "#3b5bdb",
    "completed": "#0f7fb5",
    "expired": "#e07b00",
    "cancelled": "#8a94a3",
    "failed": "#b3195f",
    "closed": "#5d4ba8",
    "pending": "#1e9e77",
}

_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": COLOURS["ink"],
    "text.parse_math": False,  # a key may contain dollar signs
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["grid"],
    "ytick.color": COLOURS["grid"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "ytick.left": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",  # keep text searchable and in the page's font
}
# Inches; text has the same size in all figures of a page.
_WIDE: Final = (10.6, 3.0)
_HALF: Final = (5.1, 3.0)
_DPI: Final = 160
_MOST_KEYS: Final = 12
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
    directory.mkdir()
    drawn = {}
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Glyphs that the font lacks are boxes in the PNG; the SVG keeps the text, and the page's fonts show it.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        for name, (has_any, paint, size) in _FIGURES.items():
            if has_any(findings):
                figure = Figure(figsize=size, layout="constrained")
                paint(figure.add_subplot(), findings)
                drawn[name] = _written(figure, name, directory)
    return drawn


Paint = Callable[[Axes, Findings], None]


def _written(figure: Figure, name: str, directory: Path) -> str:
    """Write a figure, and return it for a page."""
    figure.savefig(directory / f"{name}.png", dpi=_DPI, facecolor="white")
    # Ids inside an SVG must differ from those of its neighbours on the page.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(directory / f"{name}.svg", facecolor="white", metadata={"Date": None})
        inline = io.StringIO()
        figure.savefig(inline, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(inline.getvalue(), name)


def _for_page(svg: str, name: str) -> str:
    """The svg element alone, as wide as its container, with the page's colours."""
    element = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    element = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 aria-hidden="true"', element, count=1)
    element = re.sub(r'(id|href)="(#?)', rf'\1="\2{name}-', element)
    element = re.sub(r"url\(#", f"url(#{name}-", element)
    for variable, colour in COLOURS.items():
        element = element.replace(colour, f"var(--{variable})")
    return element


# Each of these paints one figure.


def _pending(axes: Axes, findings: Findings) -> None:
    edges = _edges(axes, findings)
    pending = [0, *(stretch.pending for stretch in findings.stretches)]
    axes.fill_between(edges, pending, color=COLOURS["pending"], alpha=0.18, linewidth=0)
    axes.plot(edges, pending, color=COLOURS["pending"], linewidth=1.6)
    mean = findings.summary["pending_mean"]
    if mean is not None:
        label = f"mean {number(round(mean, 1))}"
        axes.axhline(mean, color=COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=label)
        _legend(axes)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("operations pending")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(_COUNT)


def _rates(axes: Axes, findings: Findings) -> None:
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
    axes.set_ylim(bottom=0)
    axes.set_ylabel("operations per second")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(_COUNT)
    _legend(axes)


def _latency(axes: Axes, findings: Findings) -> None:
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


def _lateness(axes: Axes, findings: Findings) -> None:
    lows = [step.low_ns for step in findings.lateness]
    widths = [step.high_ns - step.low_ns for step in findings.lateness]
    counts = [step.count for step in findings.lateness]
    axes.bar(lows, counts, widths, align="edge", color=COLOURS["expired"], linewidth=0)
    _log_durations(axes)
    axes.set_xlabel("from submission plus timeout to expiration")
    axes.set_ylabel("operations expired")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(_COUNT)


def _keys(axes: Axes, findings: Findings) -> None:
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
    axes.xaxis.set_major_formatter(_COUNT)
    _legend(axes)


_FIGURES: Final[dict[str, tuple[Callable[[Findings], bool], Paint, tuple[float, float]]]] = {
    "pending": (lambda findings: bool(findings.stretches), _pending, _WIDE),
    "rates": (lambda findings: bool(findings.stretches), _rates, _WIDE),
    "latency": (lambda findings: bool(findings.latency), _latency, _HALF),
    "lateness": (lambda findings: bool(findings.lateness), _lateness, _HALF),
    "keys": (lambda findings: bool(findings.keys), _keys, _WIDE),
}
_COUNT: Final = FuncFormatter(lambda value, _: number(int(value) if value == int(value) else value))


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


def _log_durations(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda _, __: ""))
    axes.tick_params(axis="x", which="minor", bottom=False)


def _legend(axes: Axes) -> None:
    """Above the figure, in one line."""
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=7, handlelength=1, columnspacing=1.4)
