"""The records of a journal: the single source of field names, types and units.

A journal is a sequence of records for each run and node, one for every event of a purgatory. The kinds are `Submit`,
`Reschedule`, `Signal`, `Outcome` and `Stats`. As lines they are JSON objects with a ``kind``; as a table they share the
columns of `FIELDS`, null where a kind has no such field.

Durations and instants are integer nanoseconds, so sums are associative and nothing is rounded. ``mono_ns`` is for
differences. It counts from the timer's tick in which the run started, so deadlines fall on multiples of the tick, as
they do in the timer. ``wall_ns`` is for calendars.

``needed`` and ``n`` let a reader compute outcomes under other timeouts: an operation completes when the ``n`` of
signals on its keys sum up to ``needed``. Other conditions (distinct voters, every key, the user's own) have `NO_SUM`;
for them only the recorded outcome shows when they held.
"""

from typing import Annotated, Final, Literal

import msgspec

__all__ = [
    "ADDED",
    "FIELDS",
    "NO_SUM",
    "RESCHEDULE_VERSION",
    "SCHEMA_VERSION",
    "AnswerWord",
    "Outcome",
    "OutcomeWord",
    "Record",
    "Reschedule",
    "Signal",
    "Stats",
    "Submit",
    "kinds",
]

SCHEMA_VERSION: Final = 1
"""The ``schema_version`` of every kind that a reader of version 1 knows."""

RESCHEDULE_VERSION: Final = 2
"""The one of `Reschedule`: to a reader of version 1 such a line is damage, and the rest of the journal is as before."""

INT_MAX: Final = 2**31 - 1

NO_SUM: Final = INT_MAX
"""``needed`` of an operation whose condition is not a sum of signals."""

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=INT_MAX)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]

OutcomeWord = Literal["completed", "expired", "cancelled", "failed", "closed"]
AnswerWord = Literal["complete", "fail", "answer"]


class _Record(msgspec.Struct, kw_only=True, frozen=True, gc=False, tag_field="kind"):
    """The fields of every record.

    Attributes:
        schema_version: The first version whose readers know the kind.
        run_id: The id of one start of a program.
        node: Where it ran.
        seq: Counts from 1 without gaps in each run and node, so a lost record shows.
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
    """An operation was submitted.

    Attributes:
        op_id: Unique within its run and node.
        keys: The keys it watches, each once.
        needed: The sum of ``n`` at which it completes, or `NO_SUM`.
        timeout_ns: Until it expires; None for never.
    """

    op_id: str
    keys: list[str]
    needed: Int
    timeout_ns: Long | None


class Reschedule(_Record, frozen=True, tag="reschedule"):
    """A pending operation was given another deadline, which counts from this record.

    Attributes:
        op_id: As in its `Submit`.
        timeout_ns: From now until it expires; None for never.
    """

    op_id: str
    timeout_ns: Long | None


class Signal(_Record, frozen=True, tag="signal"):
    """A key was signalled, watched or not; ``n`` is how much the signal counts."""

    key: str
    n: Int


class Outcome(_Record, frozen=True, tag="outcome"):
    """An operation ended.

    Attributes:
        op_id: As in its `Submit`.
        keys: As in its `Submit`.
        outcome: How it ended.
        latency_ns: From its submission to its end.
        lateness_ns: If it expired: from its deadline, before rounding to a tick, to its end.
        checks: How often its condition was checked, the first time included.
        inserts: Its insertions into buckets of the timing wheel, cascades included; 0 without a deadline, None
            if it was rescheduled.
        how: With which kind of answer a client ended it: a program completed or failed it, or a person answered its
            question. Absent for any other end, such as a signal's.
        by: Who gave that answer; absent if that is not known.
    """

    op_id: str
    keys: list[str]
    outcome: OutcomeWord
    latency_ns: Long
    lateness_ns: Long | None = None
    checks: Int | None = None
    inserts: Int | None = None
    how: AnswerWord | msgspec.UnsetType = msgspec.UNSET
    by: str | msgspec.UnsetType = msgspec.UNSET


class Stats(_Record, frozen=True, tag="stats"):
    """Sizes of the purgatory at one instant.

    Attributes:
        pending: Operations.
        watched: Pairs of operation and key.
        timer_buckets: Buckets of the timing wheel that are not empty.
        purged: Entries that a purge removed; this library has no purge, so 0.
        tick_ns: The timer's tick.
        wheel_size: Buckets in one level of its wheel.
    """

    pending: Long
    watched: Long
    timer_buckets: Long
    tick_ns: Positive
    wheel_size: Positive
    purged: Long | None = None


Record = Submit | Reschedule | Signal | Outcome | Stats

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
    ("how", "string"),
    ("by", "string"),
)
"""The columns of a journal as a table, in order, with their Spark SQL types."""

ADDED: Final = frozenset({"how", "by"})
"""Columns that files of an earlier program lack."""


def kinds() -> tuple[type[Record], ...]:
    """The types of record, in the order of an operation's life."""
    return (Submit, Reschedule, Signal, Outcome, Stats)
