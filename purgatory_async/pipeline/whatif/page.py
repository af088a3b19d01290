"""Writes the result of a what-if as a page, and draws curves over each quantity of which several values were tried."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes

from purgatory_async.pipeline.pages import drawing
from purgatory_async.pipeline.pages.document import duration, number, share, write_document
from purgatory_async.pipeline.pages.drawing import COLOURS, HALF, label, legend

__all__ = ["draw", "write_page"]

_NS: Final = 1_000_000_000
_DASHES: Final = ("--", ":", "-.", (0, (8, 3)))  # of the curves beside the recommended one
_NEAREST: Final = 0.12  # of the axis, from one label to the next
_SHORT: Final = 32  # characters of a label that leaves room for another beside it

Line = Mapping[str, Any]
Curves = Mapping[tuple[Any, ...], Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class _Chart:
    """A figure of the settings over one of their quantities.

    Attributes:
        figure: What is drawn, as the settings name it.
        over: The quantity.
        apart: The quantities that give a curve to each of their combinations; any other makes no difference.
        colour: Of the recommended curve.
        label: Of the vertical axis.
        shown: Formats a value of the figure.
        from_zero: Whether the vertical axis starts at 0.
    """

    figure: str
    over: str
    apart: tuple[str, ...]
    colour: str
    label: str
    shown: Callable[[float], str]
    from_zero: bool = True


# The wheel's size decides how often it inserts, and nothing else.
_CHARTS: Final = {
    "expired": _Chart("timeout_rate", "timeout", ("tick",), "expired", "share expired", share),
    "pending": _Chart("pending_mean", "timeout", ("tick",), "pending", "operations pending", number),
    "lateness": _Chart("lateness_mean_ns", "tick", ("timeout",), "expired", "late on average", duration),
    # Hardly below one insert an operation, so that its differences would not show above zero.
    "inserts": _Chart(
        "inserts_per_operation",
        "wheel_size",
        ("timeout", "tick"),
        "accent",
        "inserts an operation",
        lambda inserts: f"{inserts:.5g}",
        from_zero=False,
    ),
}
_AXES: Final = {"timeout": "timeout", "tick": "tick", "wheel_size": "buckets a level"}


def write_page(lines: Sequence[Line], recommended: Line, figures: Mapping[str, str], path: Path) -> None:
    """Write the page.

    Args:
        lines: The settings with their figures, at least one.
        recommended: The one to take and why, from `purgatory_async.pipeline.whatif.recommendation.recommend`.
        figures: SVG by name, from `draw`.
        path: The file; overwritten.
    """
    setting = {name: recommended[name] for name in _AXES}
    chosen = next(line for line in lines if line.items() >= setting.items())
    write_document("whatif.html", path, lines=lines, chosen=chosen, why=recommended["why"], figures=figures)


def draw(lines: Sequence[Line], recommended: Line, directory: Path) -> dict[str, str]:
    """Draw the figures; one over a quantity of which only one value was tried is left out.

    Args:
        lines: As those of `write_page`.
        recommended: Likewise.
        directory: Created; gets ``<name>.svg`` and ``<name>.png`` of each figure.

    Returns:
        The SVG of each figure for a page, by name.
    """
    charts = {}
    for name, chart in _CHARTS.items():
        curves = _curves(chart, lines, recommended)
        if any(len(points) > 1 for points in curves.values()):
            charts[name] = (partial(_paint, chart, curves, recommended), HALF)
    return drawing.draw(charts, directory)


def _curves(chart: _Chart, lines: Sequence[Line], recommended: Line) -> Curves:
    """The points of each combination of what is ``apart``, in order; those without a figure are left out."""
    same = [name for name in _AXES if name not in {chart.over, *chart.apart}]
    curves: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for line in sorted(lines, key=lambda line: [line[name] for name in (*chart.apart, chart.over)]):
        if line[chart.figure] is not None and all(line[name] == recommended[name] for name in same):
            combination = tuple(line[name] for name in chart.apart)
            curves.setdefault(combination, []).append((line[chart.over], line[chart.figure]))
    return curves


def _paint(chart: _Chart, curves: Curves, recommended: Line, axes: Axes) -> None:
    wanted = tuple(recommended[name] for name in chart.apart)
    best = wanted if wanted in curves else max(curves)  # nothing is late where nothing expires
    others = [combination for combination in curves if combination != best]
    hidden = len(others) if len(others) > len(_DASHES) else 0
    for combination, dash in zip(others[hidden:], _DASHES, strict=False):
        _curve(axes, curves[combination], "muted", linestyle=dash, label=_named(chart, combination))
    more = f"; {hidden} more in the table" if hidden else ""
    _curve(axes, curves[best], chart.colour, label=f"{_named(chart, best)}{more}" if others else None)
    height = dict(curves.get(wanted, ())).get(recommended[chart.over])
    if height is not None:
        (point,) = axes.plot([recommended[chart.over]], [height], "o", color=COLOURS["ink"], markersize=6)
        point.set(label=f"recommended: {chart.shown(height)}", zorder=5, clip_on=False)
    _label(axes, chart, sorted({value for points in curves.values() for value, _ in points}))
    _, labels = axes.get_legend_handles_labels()
    if labels:
        legend(axes, columns=2 if max(map(len, labels)) <= _SHORT else 1, handles=2.4)


def _curve(axes: Axes, points: Sequence[tuple[float, float]], colour: str, **style: Any) -> None:
    axes.plot(
        *zip(*points, strict=True),
        color=COLOURS[colour],
        linewidth=1.6,
        marker="o",
        markersize=3.5,
        clip_on=False,
        **style,
    )


def _named(chart: _Chart, combination: Sequence[Any]) -> str:
    return ", ".join(
        f"{_AXES[name]} {_quantity(name, value)}"
        for name, value in zip(chart.apart, combination, strict=True)
    )


def _quantity(name: str, value: float) -> str:
    return number(value) if name == "wheel_size" else duration(value * _NS)


def _label(axes: Axes, chart: _Chart, values: Sequence[float]) -> None:
    """Label the axes: the horizontal one at the values that were tried, as far as there is room."""
    axes.set_xscale("log")
    room = _NEAREST * log(values[-1] / values[0])
    ticks = [values[-1]]
    for value in reversed(values):
        if log(ticks[-1] / value) >= room > 0 and (value == values[0] or log(value / values[0]) >= room):
            ticks.append(value)
    axes.set_xticks(ticks, [_quantity(chart.over, value) for value in ticks])
    axes.minorticks_off()
    axes.set_xlabel(_AXES[chart.over])
    label(axes.yaxis, chart.label, chart.shown)
    if chart.from_zero:
        axes.set_ylim(bottom=0)
