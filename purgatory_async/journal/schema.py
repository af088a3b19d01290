"""What a journal records: the single source of field names, types and units.

A journal is a sequence of records for each run and node, one for every event of a purgatory. `Submit`, `Signal`,
`Outcome` and `Stats` are its kinds; as lines they are JSON objects told apart by ``kind``, as a table they share the
columns of `FIELDS`, null where a kind has no such field.

Durations and instants are integer nanoseconds, so sums are associative and nothing is rounded. ``mono_ns`` is for
differences: it counts from the run's start, or rather from the timer's tick in which the run started, so that
deadlines fall on multiples of the tick in it, as they do in the timer. ``wall_ns`` is for calendars.

``needed`` and ``n`` let a reader ask what would have happened with other timeouts: an operation completes when the
``n`` of signals on its keys sum up to ``needed``. Conditions that are no such sum (distinct voters, every key, a
condition of one's own) have `NO_SUM`; then only the recorded end says when they came true.
"""

from typing import Annotated, Final, Literal

import msgspec

__all__ = [
    "FIELDS",
    "NO_SUM",
    "SCHEMA_VERSION",
    "Outcome",
    "OutcomeWord",
    "Record",
    "Signal",
    "Stats",
    "Submit",
    "kinds",
]

SCHEMA_VERSION: Final = 1
INT_MAX: Final = 2**31 - 1

NO_SUM: Final = INT_MAX
"""``needed`` of an operation whose condition is no sum of signals."""

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=INT_MAX)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]

OutcomeWord = Literal["completed", "expired", "cancelled", "failed", "closed"]


class _Record(msgspec.Struct, kw_only=True, frozen=True, gc=False, tag_field="kind"):
    """What every record has.

    Attributes:
        schema_version: `SCHEMA_VERSION` of the writer.
        run_id: Of one start of a program.
        node: Where it ran.
        seq: Counts from 1 without gaps in each run and node, so a lost record is seen.
        wall_ns: UTC, nanoseconds since 1970.
        mono_ns: Nanoseconds since the run's start.
    """

    schema_version: Int
    run_id: str
    node: str
    seq: Positive
    wall_ns: Long
    mono_ns: Long


class Submit(_Record, frozen=True, tag="submit"):
    """An operation began to wait.

    Attributes:
        op_id: Names it within its run and node.
        keys: What it watches, each once.
        needed: The sum of ``n`` at which it completes, or `NO_SUM`.
        timeout_ns: Until it expires; None for never.
    """

    op_id: str
    keys: list[str]
    needed: Int
    timeout_ns: Long | None


class Signal(_Record, frozen=True, tag="signal"):
    """A key was signalled, whether or not anybody watched it.

    Attributes:
        key: Which.
        n: How much the signal counts.
    """

    key: str
    n: Int


class Outcome(_Record, frozen=True, tag="outcome"):
    """An operation ended.

    Attributes:
        op_id: As in its `Submit`.
        keys: As in its `Submit`.
        outcome: How.
        latency_ns: From its submission to its end.
        lateness_ns: Of an expired one: from submission plus timeout, before rounding to a tick, to its end.
        checks: How often its condition was asked, the first time included.
        inserts: How often it was put into a bucket of the timing wheel, cascades included; 0 without a deadline.
    """

    op_id: str
    keys: list[str]
    outcome: OutcomeWord
    latency_ns: Long
    lateness_ns: Long | None = None
    checks: Int | None = None
    inserts: Int | None = None


class Stats(_Record, frozen=True, tag="stats"):
    """What stood there at a moment.

    Attributes:
        pending: Operations.
        watched: Pairs of operation and key.
        timer_buckets: Buckets of the timing wheel with something in them.
        purged: Entries that a purge removed; this library has no purge, so 0.
        tick_ns: The timer's tick.
        wheel_size: Buckets of a level of its wheel.
    """

    pending: Long
    watched: Long
    timer_buckets: Long
    tick_ns: Positive
    wheel_size: Positive
    purged: Long | None = None


Record = Submit | Signal | Outcome | Stats

FIELDS: Final = (
    ("schema_version", "int"),
    ("run_id", "string"),
    ("node", "string"),
    ("seq", "long"),
    ("kind", "string"),
    ("wall_ns", "long"),
    ("mono_ns", "long"),
    ("op_id", "string"),
    ("keys", "array<string>"),
    ("needed", "int"),
    ("timeout_ns", "long"),
    ("key", "string"),
    ("n", "int"),
    ("outcome", "string"),
    ("latency_ns", "long"),
    ("lateness_ns", "long"),
    ("checks", "int"),
    ("inserts", "int"),
    ("pending", "long"),
    ("watched", "long"),
    ("timer_buckets", "long"),
    ("purged", "long"),
    ("tick_ns", "long"),
    ("wheel_size", "long"),
)
"""The columns of a journal as a table, in order, with their types in the words of Spark's SQL."""


def kinds() -> tuple[type[Record], ...]:
    """The types of record, in the order in which an operation meets them."""
    return (Submit, Signal, Outcome, Stats)
