"""Writes the report of a journal as a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from purgatory_async.pipeline.pages.document import write_document
from purgatory_async.pipeline.report.findings import OUTCOMES, Findings

__all__ = ["write_page"]

_FEW: Final = 10  # listed missing ranges, and nodes


def write_page(findings: Findings, figures: Mapping[str, str], path: Path) -> None:
    """Write the page; ``figures`` are SVG by name, from `purgatory_async.pipeline.report.charts.draw`."""
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
        anomalies=[dict(row, record=row["outcome"] or row["kind"]) for row in findings.anomalies],
        nodes=[dict(node, span_ns=node["last_ns"] - node["first_ns"]) for node in findings.nodes[:_FEW]],
    )
