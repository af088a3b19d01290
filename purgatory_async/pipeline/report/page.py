"""Writes the report of a journal as a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from purgatory_async.pipeline.pages.document import (
    Caption,
    Column,
    captioned,
    cards,
    counted,
    table,
    text,
    write_document,
)
from purgatory_async.pipeline.pages.formats import duration, instant, number, share
from purgatory_async.pipeline.report.findings import OUTCOMES, Findings

__all__ = ["write_page"]

_FEW: Final = 10  # listed missing ranges, and nodes

_CAPTIONS: Final[tuple[Caption, ...]] = (
    ("pending", "Pending over time", "Operations that were waiting at once.", True),
    ("rates", "Rates", "Operations submitted and ended per second, by outcome.", True),
    ("latency", "Latency of completed operations", "The share that had completed after each latency.", False),
    ("lateness", "Lateness of expirations", "Rounding up to a tick, plus the event loop's delay.", False),
    ("keys", "The busiest keys", "How the operations that watched them ended.", True),
)


def write_page(findings: Findings, figures: Mapping[str, str], path: Path) -> None:
    """Write the page; ``figures`` are SVG by name, from `purgatory_async.pipeline.report.charts.draw`."""
    parts = [
        _header(findings),
        _cards(findings),
        _outcomes(findings),
        captioned("What happened", _CAPTIONS, figures),
        _durations(findings),
        _keys(findings),
        _trouble(findings),
        _nodes(findings),
        _footer(findings),
    ]
    write_document("Purgatory report", parts, path)


def _header(findings: Findings) -> str:
    lines = []
    if findings.began_ns is not None and findings.ended_ns is not None:
        runs = len({node["run_id"] for node in findings.nodes})
        places = len({node["node"] for node in findings.nodes})
        lines.append(
            f"From {instant(findings.began_ns)}, for {duration(findings.ended_ns - findings.began_ns)}: "
            f"{counted(runs, 'run')} on {counted(places, 'node')}."
        )
    if findings.arrivals_per_s is not None and findings.held_mean_s is not None:
        lines.append(
            f"On average {number(findings.arrivals_per_s)} operations arrived per second, and each was pending for "
            f"{duration(findings.held_mean_s * 1e9)}."
        )
    paragraphs = "\n".join(f"<p>{line}</p>" for line in lines)
    if any(findings.summary[name] for name in ("missing", "quarantined", "anomalies")):
        where = '<a href="#health">what is wrong with it</a>'
        paragraphs += f'\n<p class="trouble">The journal is incomplete, so figures may be off: {where}.</p>'
    name = '<div class="name">Purgatory report</div>'
    return f"<header>\n{name}\n<h1>{_headline(findings)}</h1>\n{paragraphs}\n</header>"


def _headline(findings: Findings) -> str:
    total = findings.summary["operations"]
    outcomes = findings.summary["outcomes"]
    if not total:
        return "This journal has no operations."
    done = f"{share(outcomes['completed'], total)} of {counted(total, 'operation')} completed"
    late = f"{share(outcomes['expired'], total)} expired"
    median = findings.summary["latency_ns"]["p50"]
    waited = "" if median is None else f" Completed operations waited {duration(median)} (median)."
    return f"{done}, {late}.{waited}"


def _cards(findings: Findings) -> str:
    found = findings.summary
    total = found["operations"]
    mean = found["pending_mean"]
    figures = (
        (number(total), "operations"),
        (share(found["outcomes"]["expired"], total), "expired"),
        (duration(found["latency_ns"]["p99"]), "latency, 99th percentile"),
        (duration(found["lateness_ns"]["p99"]), "lateness, 99th percentile"),
        (number(None if mean is None else round(mean, 1)), "pending, on average"),
        (number(found["keys"]), "keys watched"),
    )
    return cards(figures)


def _outcomes(findings: Findings) -> str:
    total = findings.summary["operations"]
    counts = {outcome: count for outcome in OUTCOMES if (count := findings.summary["outcomes"][outcome])}
    if not counts:
        return ""
    bars = "".join(
        f'<i style="flex: {count} 0 0; background: var(--{name})"></i>' for name, count in counts.items()
    )
    items = "\n".join(
        f'<li><i style="background: var(--{name})"></i>{name} {number(count)} <span>{share(count, total)}</span></li>'
        for name, count in counts.items()
    )
    return f'<div class="bar" aria-hidden="true">{bars}</div>\n<ul class="legend">\n{items}\n</ul>'


def _durations(findings: Findings) -> str:
    if not findings.summary["operations"]:
        return ""
    rows = [
        {"what": "Latency of completed operations", **findings.summary["latency_ns"]},
        {"what": "Lateness of expired operations", **findings.summary["lateness_ns"]},
    ]
    columns: list[Column] = [("", lambda row: row["what"], True)]
    names = (("p50", "median"), ("p95", "95th"), ("p99", "99th percentile"), ("max", "longest"))
    columns += [(heading, lambda row, name=name: duration(row[name]), False) for name, heading in names]  # type: ignore[misc]  # mypy takes a default for a required argument
    mean = findings.summary["pending_mean"]
    law = ""
    if mean is not None and findings.curve_mean is not None:
        law = (
            f"<p>Check by Little's law: the arrival rate times the mean time pending gives "
            f"{number(round(mean, 2))} pending; the curve's mean is {number(round(findings.curve_mean, 2))}.</p>"
        )
    lead = "<p>Exact, by nearest rank. Lateness counts from submission plus timeout, before rounding to a tick.</p>"
    return f"<h2>Durations</h2>\n{lead}\n{table(columns, rows)}\n{law}"


def _keys(findings: Findings) -> str:
    if not findings.keys:
        return ""
    columns: list[Column] = [
        ("key", lambda row: text(row["key"]), True),
        ("operations", lambda row: number(row["submitted"]), False),
    ]
    shown = [name for name in OUTCOMES if any(row[name] for row in findings.keys)]
    columns += [(name, lambda row, name=name: number(row[name]), False) for name in shown]  # type: ignore[misc]  # as above
    columns.append(("signals", lambda row: number(row["signals"]), False))
    total = findings.summary["keys"]
    most = "All watched keys" if total == len(findings.keys) else "The most watched keys"
    lead = f"<p>{most}, {number(len(findings.keys))} of {number(total)}.</p>"
    return f"<h2>Keys</h2>\n{lead}\n{table(columns, findings.keys)}"


def _trouble(findings: Findings) -> str:
    """The journal's gaps, damage and anomalies, or that it has none."""
    found = findings.summary
    lost = sum(gap["last"] - gap["first"] + 1 for gap in found["missing"])
    parts = []
    if lost:
        ranges = _of(len(found["missing"]), _FEW, "range")
        parts.append(_warned(f"{counted(lost, 'record')} of the journal {_is(lost)} missing{ranges}."))
        parts.append(table(_GAPS, found["missing"][:_FEW]))
    if found["quarantined"]:
        count = found["quarantined"]
        some = _of(count, len(findings.quarantine), "line")
        parts.append(_warned(f"{counted(count, 'line')} could not be read as records{some}."))
        parts.append(table(_DAMAGE, findings.quarantine))
    if found["anomalies"]:
        count = found["anomalies"]
        some = _of(count, len(findings.anomalies), "record")
        parts.append(
            _warned(
                f"{counted(count, 'record')} {_belong(count)} to no operation{some}; no other figure counts them."
            )
        )
        parts.append(table(_ANOMALIES, findings.anomalies))
    if not parts:
        parts = [
            '<p class="fine">No record is missing or damaged, and each outcome belongs to one operation.</p>'
        ]
    return '<h2 id="health">The journal itself</h2>\n' + "\n".join(parts)


def _warned(sentence: str) -> str:
    return f'<p class="trouble">{sentence}</p>'


def _of(count: int, shown: int, thing: str) -> str:
    """A note if not all are listed below."""
    return f"; the first {number(shown)} of {counted(count, thing)} follow" if count > shown else ""


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _belong(count: int) -> str:
    return "belongs" if count == 1 else "belong"


_GAPS: Final[list[Column]] = [
    ("run", lambda row: text(row["run_id"]), True),
    ("node", lambda row: text(row["node"]), True),
    ("first", lambda row: number(row["first"]), False),
    ("last", lambda row: number(row["last"]), False),
]
_DAMAGE: Final[list[Column]] = [
    ("file", lambda row: text(row["file"]), True),
    ("offset", lambda row: number(row["offset"]), False),
    ("reason", lambda row: text(row["reason"]), True),
]
_ANOMALIES: Final[list[Column]] = [
    ("run", lambda row: text(row["run_id"]), True),
    ("node", lambda row: text(row["node"]), True),
    ("seq", lambda row: number(row["seq"]), False),
    ("operation", lambda row: text(row["op_id"]), True),
    ("record", lambda row: text(row["outcome"] or row["kind"]), True),
    ("why", lambda row: text(row["reason"]), True),
]
_NODES: Final[list[Column]] = [
    ("run", lambda row: text(row["run_id"]), True),
    ("node", lambda row: text(row["node"]), True),
    ("began", lambda row: instant(row["first_wall_ns"]), False),
    ("for", lambda row: duration(row["last_ns"] - row["first_ns"]), False),
    ("records", lambda row: number(row["records"]), False),
    ("operations", lambda row: number(row["submits"]), False),
    ("signals", lambda row: number(row["signals"]), False),
    ("tick", lambda row: duration(row["tick_ns"]), False),
    ("wheel size", lambda row: number(row["wheel_size"]), False),
]


def _nodes(findings: Findings) -> str:
    if not findings.nodes:
        return ""
    shown = findings.nodes[:_FEW]
    some = _of(len(findings.nodes), len(shown), "run and node")
    lead = f"<p>The journal's coverage{some}.</p>"
    return f"<h2>Runs and nodes</h2>\n{lead}\n{table(_NODES, shown)}"


def _footer(findings: Findings) -> str:
    return (
        "<footer>The tables beside this page have every row: outcomes, timeline, keys, anomalies, quarantine, missing. "
        f"Stretches of the timeline are {duration(findings.width_ns)} long. Times are UTC.</footer>"
    )
