"""A range of time: the operations that were submitted in it.

An operation belongs to the range that has ``wall_ns`` of its submission, so each belongs to one of ranges that follow
each other. A range has its first instant, and not its end. What a record says of an operation whose submission is not
there is counted by the instant at which that was, by the record's own time and latency.
"""

import datetime as dt
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_NS: Final = 1_000_000_000
_ISO: Final = re.compile(
    r"((?:\d{4}-\d\d-\d\d|\d{8})[T ]\d\d(?::?\d\d)?)(:?\d\d(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)",
    re.IGNORECASE | re.ASCII,
)
_1970: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_NS, _LAST_NS = -(2**63), 2**63 - 1


def instant_ns(text: str) -> int:
    """The instant that a text names, in nanoseconds since 1970: ISO 8601 with a zone, or seconds since 1970.

    >>> instant_ns("2026-11-25T01:00:00.5+01:00"), instant_ns("1795564800.5")
    (1795564800500000000, 1795564800500000000)

    Raises:
        ValueError: It names none, or one that is not in whole nanoseconds or not from 1677 to 2262.
    """
    found_ns = None
    with suppress(InvalidOperation, ValueError):
        if match := _ISO.fullmatch(text):
            minute, second, fraction, zone = match.groups()
            whole = minute + re.split("[.,]", second or "")[0]
            since = dt.datetime.fromisoformat(f"{whole}{zone}".upper()) - _1970
            found_ns = (since.days * 86_400 + since.seconds) * _NS + int(f"{fraction or '':0<9}")
        else:
            seconds = Decimal(text)
            if seconds.is_finite() and seconds.adjusted() <= len(str(_LAST_NS)) and not seconds * _NS % 1:
                found_ns = int(seconds * _NS)
    if found_ns is None or not _FIRST_NS <= found_ns <= _LAST_NS:
        raise ValueError(
            "must be an ISO 8601 time with a zone, such as 2026-11-25T00:00Z, or seconds since 1970 with at most 9 "
            f"decimals, from 1677 to 2262, got {text!r}"
        )
    return found_ns


@dataclass(frozen=True, slots=True)
class Between:
    """From an instant on, and up to another, which is not in it; in nanoseconds since 1970, None for no limit."""

    from_ns: int | None = None
    to_ns: int | None = None

    def __bool__(self) -> bool:
        return self != ALWAYS

    def has(self, wall_ns: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which of some instants are in it."""
        late = pc.greater_equal(wall_ns, _FIRST_NS if self.from_ns is None else self.from_ns)
        return late if self.to_ns is None else pc.and_(late, pc.less(wall_ns, self.to_ns))

    def sql(self, column: str) -> str:
        """A condition of Spark SQL that is true of its instants."""
        late = "true" if self.from_ns is None else f"{column} >= {self.from_ns}"
        return late if self.to_ns is None else f"{late} and {column} < {self.to_ns}"

    def clipped(self, first_ns: int, last_ns: int) -> tuple[int, int]:
        """The part of a span that is in it; one that is not in it has no length."""
        begin = first_ns if self.from_ns is None else max(first_ns, self.from_ns)
        end = last_ns if self.to_ns is None else min(last_ns, self.to_ns)
        return begin, max(begin, end)

    @property
    def limits(self) -> dict[str, str | None]:
        """``from`` and ``to`` in ISO 8601."""
        return {"from": _shown(self.from_ns), "to": _shown(self.to_ns)}

    def summary(self) -> dict[str, dict[str, str | None]]:
        """What a command says of it: ``range`` with the limits; nothing without one."""
        return {"range": self.limits} if self else {}


ALWAYS: Final = Between()
"""All operations."""


def _shown(instant: int | None) -> str | None:
    if instant is None:
        return None
    seconds, ns = divmod(instant, _NS)
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    return f"{_1970 + dt.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"
