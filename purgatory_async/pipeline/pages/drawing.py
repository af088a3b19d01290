"""Draws figures, as files and as inline SVG for a page.

The colours are safe for colour-blind readers and mean the same in every figure. In a page they are variables of its
style sheet, so a figure is light or dark as the page is.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from purgatory_async.pipeline.pages.document import number

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
    **dict.fromkeys(("axes.edgecolor", "grid.color", "xtick.color", "ytick.color"), COLOURS["grid"]),
    **dict.fromkeys(("axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), COLOURS["muted"]),
    **dict.fromkeys(("axes.labelsize", "legend.fontsize"), 9),
    **dict.fromkeys((f"axes.spines.{side}" for side in ("top", "right", "left")), False),
    **dict.fromkeys(("ytick.left", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    "grid.linewidth": 0.8,
    "svg.fonttype": "none",  # keep text searchable and in the page's font
}

Size = tuple[float, float]
# Inches; text has the same size in all figures of a page.
WIDE: Final[Size] = (10.6, 3.0)
HALF: Final[Size] = (5.1, 3.0)
_DPI: Final = 160


def draw(charts: Mapping[str, tuple[Callable[[Axes], None], Size]], directory: Path) -> dict[str, str]:
    """Draw figures, given by name how each is painted and its size in inches.

    The directory is created, and gets ``<name>.svg`` and ``<name>.png`` of each. Returns the SVG for a page, by name.
    """
    directory.mkdir()
    drawn = {}
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Glyphs that the font lacks are boxes in the PNG; the SVG keeps the text, and the page's fonts show it.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        for name, (paint, size) in charts.items():
            figure = Figure(figsize=size, layout="constrained")
            paint(figure.add_subplot())
            drawn[name] = _written(figure, name, directory)
    return drawn


def _written(figure: Figure, name: str, directory: Path) -> str:
    """Write a figure, and return it for a page."""
    figure.savefig(directory / f"{name}.png", dpi=_DPI, facecolor="white")
    # Ids inside an SVG must differ from ids of its neighbours on the page.
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


def label(
    axis: Axis, text: str, shown: Callable[[float], str] = number, *, ticks: int = 5, whole: bool = False
) -> None:
    """Label an axis, and some ``ticks`` on it, which are only integers if ``whole``; ``shown`` formats their values."""
    axis.set_label_text(text)
    axis.set_major_locator(MaxNLocator(ticks, integer=whole))
    axis.set_major_formatter(lambda value, _: shown(value))


def legend(axes: Axes, columns: int = 7, handles: float = 1) -> None:
    """Put the legend above the figure, with most ``columns`` in a line, and strokes of ``handles`` letters."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns, handlelength=handles, columnspacing=1.4
    )
