"""Deadlines as text: an instant in RFC 3339, with the offset from UTC that it is on.

The log counts microseconds. An instant between two of them is the later one, so nothing expires early.

>>> instant_us("1970-01-01T01:00:00.0000001+01:00"), instant_us("1970-01-02t00:00:00z")
(1, 86400000000)
"""

import datetime as dt
import re
from typing import Final

from purgatory_async.clock import MAX_TIMEOUT

__all__ = ["PATTERN", "deadline_text", "due_us", "instant_us"]

PATTERN: Final = (
    "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    "([.][0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
"""The grammar; it has days that no month has."""
_EXAMPLES: Final = "2026-12-31T17:00:00Z or 2026-12-31T18:00:00+01:00"
_DEADLINE: Final = re.compile(PATTERN)
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - compared with times from which their offset is taken
_SECOND_US: Final = 1_000_000
_LONGEST_US: Final = int(MAX_TIMEOUT) * _SECOND_US


def instant_us(text: str) -> int:
    """Read an instant as microseconds since 1970 in UTC, rounded up.

    Raises:
        ValueError: It does not follow the grammar, or there is no such day; the message shows how to write one.
    """
    match = _DEADLINE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a deadline must be a date and time of RFC 3339 with Z or an offset, got {text[:40]!a}; "
            f"write it as {_EXAMPLES}"
        )
    try:
        local = dt.datetime.fromisoformat(text[:19].upper())
    except ValueError:
        raise ValueError(f"a deadline must be on a day that exists, got {text[:40]!a}") from None
    fraction, zone = match[4] or ".", match[5].upper()
    nanoseconds = int(fraction[1:].ljust(9, "0"))
    seconds = (local - _EPOCH) // dt.timedelta(seconds=1)
    if zone != "Z":
        ahead = int(zone[1:3]) * 3600 + int(zone[4:]) * 60
        seconds += ahead if zone[0] == "-" else -ahead
    return seconds * _SECOND_US + -(-nanoseconds // 1000)


def due_us(text: str, now_us: int) -> int:
    """Read a deadline that a client asks for, as `instant_us`; it may have passed, by decades if it is 0.

    Args:
        text: The deadline.
        now_us: The present, in microseconds since 1970.

    Raises:
        ValueError: As `instant_us`, or it is more than 100 years ahead.
    """
    due = instant_us(text)
    if due - now_us > _LONGEST_US:
        raise ValueError(
            f"a deadline must be at most 100 years ahead, got {text!r}; leave it out for an operation without one"
        )
    return max(due, 0)


def deadline_text(deadline: dt.datetime) -> str:
    """Write a deadline that a caller of a client gives, in UTC.

    Raises:
        TypeError: It is no `datetime`.
        ValueError: It has no time zone, or is no instant of the years 1 to 9999 in UTC.
    """
    how = "give one with a time zone, such as datetime.now(UTC) + timedelta(hours=24)"
    if not isinstance(deadline, dt.datetime):
        raise TypeError(f"deadline must be an aware datetime, got {type(deadline).__name__}; {how}")
    if deadline.utcoffset() is None:
        raise ValueError(
            f"deadline must be an aware datetime, got {deadline.isoformat()} without a time zone; {how}"
        )
    try:
        return deadline.astimezone(dt.UTC).isoformat()
    except OverflowError:
        raise ValueError(f"deadline must be at most 100 years ahead, got {deadline.isoformat()}") from None
