"""Formats numbers, durations and instants for people."""

import datetime as dt
from typing import Final

__all__ = ["counted", "duration", "instant", "number", "printable", "share"]

_UNITS: Final = (
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "µs"),
    (1, "ns"),
)
_LONGEST: Final = 120  # characters of a key


def duration(ns: float | None) -> str:
    """A duration with three digits and a unit.

    >>> duration(1_234_567), duration(200_000_000), duration(0), duration(7_200_000_000_000), duration(None)
    ('1.23 ms', '200 ms', '0', '2 h', 'none')
    """
    if ns is None:
        return "none"
    if ns == 0:
        return "0"
    size, unit = next((each for each in _UNITS if abs(ns) >= each[0]), _UNITS[-1])
    return f"{_three_digits(ns / size)} {unit}"


def _three_digits(value: float) -> str:
    decimals = max(0, 3 - len(str(int(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def number(value: float | None) -> str:
    """A count with commas, or another number with three digits.

    >>> number(1234567), number(0.5), number(12.0), number(None)
    ('1,234,567', '0.5', '12', 'none')
    """
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else _three_digits(value)


def counted(count: int, thing: str) -> str:
    """A count and its noun, in the plural where it is due.

    >>> counted(1, "run"), counted(1234, "run")
    ('1 run', '1,234 runs')
    """
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


def share(part: float, whole: float) -> str:
    """A percentage, with enough digits to differ from 0 and 100.

    >>> share(1, 3), share(1, 100_000), share(99_999, 100_000), share(0, 7), share(1, 0)
    ('33.3 %', '0.001 %', '99.999 %', '0 %', 'none')
    """
    if not whole:
        return "none"
    percent = 100 * part / whole
    text = ""
    for decimals in range(1, 6):
        text = f"{percent:.{decimals}f}"
        if percent in {0, 100} or float(text) not in {0.0, 100.0}:
            break
    return f"{text.rstrip('0').rstrip('.')} %"


def instant(ns: int) -> str:
    """An instant in UTC, to the second.

    >>> instant(1_790_000_000_000_000_000)
    '2026-09-21 14:13:20 UTC'
    """
    moment = dt.datetime.fromtimestamp(ns // 1_000_000_000, dt.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def printable(text: str) -> str:
    r"""Untrusted text on one line: unprintable characters escaped, cut to 120 characters.

    >>> print(printable("a\n\x00b"), len(printable("x" * 1000)))
    a\n\x00b 120
    """
    seen = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
    return seen if len(seen) <= _LONGEST else seen[: _LONGEST - 1] + "…"
