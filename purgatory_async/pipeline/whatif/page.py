"""Writes the result of a what-if as a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purgatory_async.pipeline.pages.document import write_document

__all__ = ["write_page"]


def write_page(
    lines: Sequence[Mapping[str, Any]],
    recommended: Mapping[str, Any],
    figures: Mapping[str, str],
    path: Path,
) -> None:
    """Write the page.

    Args:
        lines: The settings with their figures, at least one.
        recommended: The one to take and why, from `purgatory_async.pipeline.whatif.recommendation.recommend`.
        figures: SVG by name, from `purgatory_async.pipeline.whatif.charts.draw`.
        path: The file; overwritten.
    """
    setting = {name: value for name, value in recommended.items() if name != "why"}
    chosen = next(line for line in lines if line.items() >= setting.items())
    write_document("whatif.html", path, lines=lines, chosen=chosen, why=recommended["why"], figures=figures)
