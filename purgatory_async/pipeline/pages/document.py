"""Writes pages from templates: self-contained, without network or script, style and figures inside.

Strings of a journal are untrusted: templates escape every value but the figures, and show a journal's strings
through the filter ``text``, on one line.
"""

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from purgatory_async.pipeline.pages.formats import counted, duration, instant, number, printable, share

__all__ = ["write_document"]


def write_document(template: str, path: Path, **values: Any) -> None:
    """Write a page.

    Args:
        template: The name of its template, beside this module.
        path: The file; overwritten.
        values: What the template needs; UndefinedError if something is missing.
    """
    path.write_text(_PAGES.get_template(template).render(values), encoding="utf-8")


def _percent(rate: float | None) -> str:
    return "none" if rate is None else share(rate, 1)


def _mean(value: float | None, decimals: int = 1) -> str:
    return number(None if value is None else round(value, decimals))


def _seconds(value: float) -> str:
    """Exact, for it may be copied to an option."""
    return f"{value:.12g} s"


def _inserts(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _prefix(text: str | None) -> str:
    return "keys without one" if text is None else printable(text)


_FILTERS: Final[dict[str, Any]] = {
    "duration": duration,
    "inserts": _inserts,
    "instant": instant,
    "mean": _mean,
    "number": number,
    "percent": _percent,
    "prefix": _prefix,
    "seconds": _seconds,
    "text": printable,
}
# A loader that also reads from an archive, as spark-submit takes it.
_PAGES: Final = Environment(
    loader=PackageLoader("purgatory_async.pipeline", "pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters |= _FILTERS | {"shown": lambda value, kind: _FILTERS[kind](value)}
_PAGES.globals |= {"counted": counted, "share": share}
