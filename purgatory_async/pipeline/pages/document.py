"""Writes pages from templates, and formats what is in them for people.

A page is self-contained: style and figures inside, no network, no script. Strings of a journal are untrusted: templates
escape every value but the figures, and show a journal's strings through the filter ``text``, on one line.
"""

import datetime as dt
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

_UNITS: Final = (
    *(("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("min", 60_000_000_000)),
    *(("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1)),
)


def duration(ns: float | None) -> str:
    """A duration with three digits and a unit.

    >>> duration(1_234_567), duration(200_000_000), duration(0), duration(7_200_000_000_000), duration(None)
    ('1.23 ms', '200 ms', '0', '2 h', 'none')
    """
    if not ns:
        return "none" if ns is None else "0"
    unit, size = next((each for each in _UNITS if abs(ns) >= each[1]), _UNITS[-1])
    return f"{_three_digits(ns / size)} {unit}"


def number(value: float | None) -> str:
    """A count with commas, or another number with three digits.

    >>> number(1234567), number(0.5), number(12.0), number(None)
    ('1,234,567', '0.5', '12', 'none')
    """
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else _three_digits(value)


def _three_digits(value: float) -> str:
    decimals = max(0, 3 - len(str(int(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def counted(count: int, thing: str) -> str:
    """A count and its noun, in the plural where it is due.

    >>> counted(1, "run"), counted(1234, "run")
    ('1 run', '1,234 runs')
    """
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


def share(part: float | None, whole: float = 1) -> str:
    """A percentage, with enough digits to differ from 0 and 100.

    >>> share(1, 3), share(1, 100_000), share(99_999, 100_000), share(0, 7), share(1, 0), share(None)
    ('33.3 %', '0.001 %', '99.999 %', '0 %', 'none', 'none')
    """
    if part is None or not whole:
        return "none"
    percent = 100 * part / whole
    texts = (f"{percent:.{decimals}f}" for decimals in range(1, 6))
    text = next(
        (text for text in texts if percent in {0, 100} or float(text) not in {0, 100}), f"{percent:.5f}"
    )
    return f"{text.rstrip('0').rstrip('.')} %"


def instant(ns: int) -> str:
    """An instant in UTC, to the second.

    >>> instant(1_790_000_000_000_000_000)
    '2026-09-21 14:13:20 UTC'
    """
    return f"{dt.datetime.fromtimestamp(ns // 1_000_000_000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def printable(text: str, longest: int = 120) -> str:
    r"""Untrusted text on one line: unprintable characters escaped, cut to ``longest``.

    >>> print(printable("a\n\x00b"), len(printable("x" * 1000)))
    a\n\x00b 120
    """
    seen = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def write_document(template: str, path: Path, **values: Any) -> None:
    """Write a page from a template beside this module; UndefinedError if a value that it needs is missing."""
    path.write_text(_PAGES.get_template(template).render(values), encoding="utf-8")


_FILTERS: Final[dict[str, Any]] = {
    "duration": duration,
    "inserts": lambda mean: "none" if mean is None else f"{mean:.3f}",
    "instant": instant,
    "number": number,
    "percent": share,
    "prefix": lambda prefix: "keys without one" if prefix is None else printable(prefix),
    # Exact, for it may be copied to an option.
    "seconds": lambda seconds: "none" if seconds is None else f"{seconds:.12g} s",
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
