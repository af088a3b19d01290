"""Writes the result of a what-if as a page."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from purgatory_async.pipeline.pages.document import (
    Caption,
    Column,
    Row,
    captioned,
    cards,
    counted,
    table,
    write_document,
)
from purgatory_async.pipeline.pages.formats import duration, number, share

__all__ = ["write_page"]

_SETTING: Final = ("timeout", "tick", "wheel_size")

_CAPTIONS: Final[tuple[Caption, ...]] = (
    ("expired", "Expired", "The share of operations that expires, for each timeout.", False),
    ("pending", "Pending", "Operations that wait at once, on average, for each timeout.", False),
    ("lateness", "Lateness", "How long after its timeout an operation expires, for each tick.", False),
    ("inserts", "Inserts", "How often the wheel inserts an operation, for each of its sizes.", False),
)


def write_page(
    lines: Sequence[Row], recommended: Mapping[str, Any], figures: Mapping[str, str], path: Path
) -> None:
    """Write the page.

    Args:
        lines: The settings with their figures, at least one.
        recommended: The one to take and why, from `purgatory_async.pipeline.whatif.recommendation.recommend`.
        figures: SVG by name, from `purgatory_async.pipeline.whatif.charts.draw`.
        path: The file; overwritten.
    """
    chosen = next(line for line in lines if _is_recommended(line, recommended))
    parts = [
        _header(chosen, recommended["why"]),
        _cards(chosen),
        captioned("What makes the difference", _CAPTIONS, figures),
        _settings(lines, recommended),
        _footer(),
    ]
    write_document("Purgatory what-if", parts, path)


def _is_recommended(line: Row, recommended: Mapping[str, Any]) -> bool:
    return all(line[name] == recommended[name] for name in _SETTING)


def _operations(line: Row) -> bool:
    return line["timeout_rate"] is not None


def _header(chosen: Row, why: str) -> str:
    headline = "This journal has no operations."
    if _operations(chosen):
        headline = (
            f"Take a timeout of {_seconds(chosen['timeout'])}, a tick of {_seconds(chosen['tick'])} "
            f"and {number(chosen['wheel_size'])} buckets a level."
        )
    name = '<div class="name">Purgatory what-if</div>'
    return f"<header>\n{name}\n<h1>{headline}</h1>\n<p>{escape(why)}</p>\n</header>"


def _cards(chosen: Row) -> str:
    if not _operations(chosen):
        return ""
    return cards(
        [
            (number(chosen["completed"]), "completed"),
            (share(chosen["timeout_rate"], 1), "expired"),
            (_mean(chosen["pending_mean"]), "pending, on average"),
            (duration(chosen["lateness_mean_ns"]), "late, on average"),
            (_inserts(chosen["inserts_per_operation"]), "inserts an operation"),
        ]
    )


def _settings(lines: Sequence[Row], recommended: Mapping[str, Any]) -> str:
    lead = f"<p>{counted(len(lines), 'setting')}; ✓ marks the recommended one.</p>"
    columns: list[Column] = [("timeout", lambda row: _timeout(row, recommended), True), *_FIGURES]
    return f"<h2>The settings</h2>\n{lead}\n{table(columns, lines)}"


def _timeout(row: Row, recommended: Mapping[str, Any]) -> str:
    mark = ' <b title="recommended">✓</b>' if _is_recommended(row, recommended) else ""
    return f"{_seconds(row['timeout'])}{mark}"


def _seconds(value: float) -> str:
    """Exact, for it may be copied to an option."""
    return f"{value:.12g} s"


def _mean(value: float | None) -> str:
    return number(None if value is None else round(value, 1))


def _inserts(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


_FIGURES: Final[list[Column]] = [
    ("tick", lambda row: _seconds(row["tick"]), False),
    ("wheel", lambda row: number(row["wheel_size"]), False),
    ("completed", lambda row: number(row["completed"]), False),
    ("expired", lambda row: number(row["expired"]), False),
    ("share", lambda row: share(row["timeout_rate"] or 0, _operations(row)), False),
    ("pending", lambda row: number(row["pending"]), False),
    ("mean pending", lambda row: _mean(row["pending_mean"]), False),
    ("mean lateness", lambda row: duration(row["lateness_mean_ns"]), False),
    ("inserts", lambda row: _inserts(row["inserts_per_operation"]), False),
    ("by lateness", lambda row: number(row["decided_by_lateness"]), False),
]


def _footer() -> str:
    return (
        "<footer>The table beside this page, settings, has every figure in full. Pending operations wait "
        "at the journal's end. Lateness is only what the tick adds. "
        "Inserts are those of an operation on average. By lateness: operations that expire here, but were recorded "
        "with another end, for the timer fired late.</footer>"
    )
