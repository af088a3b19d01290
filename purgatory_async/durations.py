"""The grammar of durations in queries, headers, bodies, settings, commands and clients.

A duration is ``[0-9]{1,9}(ms|s|m|h|d)?`` in ASCII; bare digits are seconds. ``int()`` alone would also take ``1_000``,
full-width digits and a trailing newline.

>>> parse_duration("30s"), parse_duration("250ms"), parse_duration("24h"), parse_duration("7")
(30.0, 0.25, 86400.0, 7.0)
>>> duration_text(55.0), duration_text(0.25)
('55', '250ms')
"""

import datetime as dt
import re
from typing import Final, TypeVar

from purgatory_async.clock import MAX_TIMEOUT

__all__ = [
    "ADVICE",
    "GRAMMAR",
    "MAX_TIMEOUT",
    "UNIT",
    "Duration",
    "as_seconds",
    "checked_timeout",
    "duration_text",
    "in_body",
    "parse_duration",
]

UNIT: Final = "(ms|s|m|h|d)?"
GRAMMAR: Final = f"[0-9]{{1,9}}{UNIT}"
ADVICE: Final = "write it as 250ms, 30s, 10m, 24h or 7d (bare digits are seconds)"
Duration = float | dt.timedelta | str
"""What the clients take as a duration: seconds, a `timedelta`, or text of the grammar."""

T = TypeVar("T")

_DURATION: Final = re.compile(f"([0-9]{{1,9}}){UNIT}")
_FRACTIONS: Final = f"([0-9]{{1,9}}|[0-9]{{0,9}}[.][0-9]{{1,9}}){UNIT}"
_WITH_FRACTION: Final = re.compile(_FRACTIONS)
_MILLISECONDS: Final = {None: 1000, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str, name: str = "a duration", *, fractions: bool = False) -> float:
    """Read a duration in seconds.

    Args:
        text: The duration.
        name: What the message calls it.
        fractions: Whether a decimal point is allowed, as on the command line.

    Raises:
        ValueError: It does not follow the grammar; the message names both, and how to write one.
    """
    # fullmatch: `$` would let a trailing newline through.
    match = (_WITH_FRACTION if fractions else _DURATION).fullmatch(text)
    if match is None:
        raise ValueError(
            f"{name} must follow {_FRACTIONS if fractions else GRAMMAR}, got {text[:40]!a}; {ADVICE}"
        )
    return float(match[1]) * _MILLISECONDS[match[2]] / 1000


def checked_timeout(value: float | str | None, name: str = "a timeout") -> float | None:
    """Read a member of a body, such as ``timeout``: a duration, a number of seconds, or None for no deadline.

    Args:
        value: The member.
        name: What the message calls it.

    Raises:
        ValueError: It is malformed, negative or above 100 years; the message names value and bound.
    """
    if value is None:
        return None
    seconds = parse_duration(value, name) if isinstance(value, str) else value
    if not 0 <= seconds <= MAX_TIMEOUT:
        raise ValueError(f"{name} must be from 0 to {MAX_TIMEOUT:.0f} seconds (100 years), got {value!r}")
    return float(seconds)


def as_seconds(name: str, value: Duration) -> float:
    """Return a duration that a caller of a client gives, in seconds; a number is left as it is, whatever its bounds.

    Raises:
        ValueError: It is text, and does not follow the grammar.
    """
    return parse_duration(value, name) if isinstance(value, str) else in_body(value)


def in_body(value: T | dt.timedelta) -> T | float:
    """Return a duration that a caller of a client gives as JSON has it: text and None are for the service to read."""
    return value.total_seconds() if isinstance(value, dt.timedelta) else value


def duration_text(seconds: float) -> str:
    """Write a duration in the grammar: whole seconds bare, others in milliseconds."""
    whole = int(seconds)
    return str(whole) if whole == seconds else f"{round(seconds * 1000)}ms"
