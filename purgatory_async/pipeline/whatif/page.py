"""Recommends one of the settings that were tried, and shows all of them on a page with curves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes

from purgatory_async.pipeline.pages import drawing
from purgatory_async.pipeline.pages.document import counted, duration, number, share, write_document
from purgatory_async.pipeline.pages.drawing import COLOURS, HALF, label, legend

_NS: Final = 1_000_000_000
# What counts as no worse: a share of what the most generous setting completes, of the timeout, of the fewest inserts.
_ENOUGH, _LATE, _SLACK = 0.99, 0.01, 1.01
_DASHES: Final = ("--", ":", "-.", (0, (8, 3)))  # of the curves beside the recommended one
_NEAREST: Final = 0.12  # of the axis, from one label to the next
_SHORT: Final = 32  # characters of a label that leaves room for another beside it

Line = Mapping[str, Any]
Curves = Mapping[tuple[Any, ...], Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class _Chart:
    """A figure of the settings over one of their quantities."""

    figure: str  # what is drawn, as the settings name it
    over: str  # the quantity
    apart: tuple[str, ...]  # quantities with a curve for each combination; any other makes no difference
    colour: str  # of the recommended curve
    label: str  # of the vertical axis
    shown: Callable[[float], str]  # formats a value
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


def recommend(lines: Sequence[Line]) -> dict[str, Any]:
    """Choose a setting, and say why.

    The shortest timeout with which nearly as many complete as with the longest: a longer one only keeps more waiting.
    Of that the coarsest tick whose lateness is next to nothing of the timeout, for fewer wakeups; of that the smallest
    wheel among those that move entries least. If operations were recorded to expire with a shorter timeout, the reason
    says that it is partly a guess. If the timeout is the longest of all, and operations expired under it, the reason
    ends with the advice to try longer ones.

    Returns:
        ``timeout, tick, wheel_size, why``.
    """
    most = max(line["completed"] for line in lines)
    enough = [line for line in lines if line["completed"] >= _ENOUGH * most]
    timeout = min(line["timeout"] for line in enough)
    of_timeout = [line for line in enough if line["timeout"] == timeout]
    punctual = [line for line in of_timeout if (line["lateness_mean_ns"] or 0) <= _LATE * timeout * _NS]
    tick = max((line["tick"] for line in punctual), default=min(line["tick"] for line in of_timeout))
    of_tick = [line for line in of_timeout if line["tick"] == tick]
    fewest = min(line["inserts_per_operation"] or 0 for line in of_tick)
    chosen = min(
        (line for line in of_tick if (line["inserts_per_operation"] or 0) <= _SLACK * fewest),
        key=lambda line: int(line["wheel_size"]),
    )
    why = _why(chosen, most)
    if chosen["guessed"]:
        why += (
            f" It is partly a guess: {counted(chosen['guessed'], 'operation')} expired with a shorter timeout when "
            "recorded, and how long what expires would have taken is not known."
        )
    if chosen["expired"] and timeout == max(line["timeout"] for line in lines):
        left = chosen["expired"]
        why += f" Of the operations, {left} still expired, and no longer timeout was tried: try longer ones."
    return {name: chosen[name] for name in ("timeout", "tick", "wheel_size")} | {"why": why}


def _why(chosen: Line, most: int) -> str:
    if chosen["timeout_rate"] is None:
        return "The journal has no operations, so nothing speaks for one setting or another."
    late_ms = (chosen["lateness_mean_ns"] or 0) / 1e6
    return (
        f"{chosen['timeout']:g} s is the shortest timeout that completes at least {_ENOUGH:.0%} of the {most} "
        f"operations which the most generous setting completes: {chosen['completed']}, with "
        f"{chosen['pending_mean'] or 0:.1f} pending on average and {chosen['timeout_rate']:.2%} expired. "
        f"A tick of {chosen['tick']:g} s makes those {late_ms:.3g} ms late on average, and with "
        f"{chosen['wheel_size']} buckets a level the wheel inserts "
        f"{chosen['inserts_per_operation']:.3f} times an operation."
    )


def write_page(
    lines: Sequence[Line],
    recommended: Line,
    figures: Mapping[str, str],
    path: Path,
    prefixes: Sequence[Line] = (),
) -> None:
    """Write the page of the settings and their figures, at least one, with the result of `recommend` and `draw`.

    Each of ``prefixes`` has what `Prefix.summary` has.
    """
    setting = {name: recommended[name] for name in _AXES}
    chosen = next(line for line in lines if line.items() >= setting.items())
    why = recommended["why"]
    write_document(
        "whatif.html", path, lines=lines, chosen=chosen, why=why, figures=figures, prefixes=prefixes
    )


def draw(lines: Sequence[Line], recommended: Line, directory: Path) -> dict[str, str]:
    """Draw the figures, as `drawing.draw` does; returns the SVG for a page, by name.

    One over a quantity of which only one value was tried is left out.
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
