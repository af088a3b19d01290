"""What ``GET /v1/admin/stats`` answers, as types: the service's figures, those of ``/metrics`` among them.

Durations are seconds, times RFC 3339 in UTC. The counts are of one moment, so they add up: submitted is the sum
of ended plus pending. The other parts are surveyed a slice at a time so that nobody waits for them, at most once a
second whoever asks (less often with millions of keys); ``survey_age`` says how old they are.
"""

import datetime as dt

from msgspec import Struct

from purgatory_async.service.messages import WaitingFor, WireNeed


class Ended(Struct):
    """Operations and one-shot waits that ended since the start, by outcome."""

    completed: int
    expired: int
    cancelled: int
    failed: int
    closed: int


class Counts(Struct):
    """Numbers of one moment.

    Attributes:
        submitted: Operations and one-shot waits since the start; the sum of ``ended`` plus ``pending``.
        ended: Since the start.
        pending: Operations and one-shot waits now.
        watched: Pairs of operation and key now.
        keys: Keys that something watches now.
        signals: Since the start.
        undelivered: Answers since the start whose client had left when they were ready.
        held: Requests held now for an operation, a key or a one-shot wait.
        takers: Requests held now for an item of a queue.
        items: Items kept in queues now, without those on loan.
        leases: Items on loan now.
        streams: Readers of ``/v1/events`` now.
        events: Life-cycle events since the start, and so the number of the newest; 0 before the first.
    """

    submitted: int
    ended: Ended
    pending: int
    watched: int
    keys: int
    signals: int
    undelivered: int
    held: int
    takers: int
    items: int
    leases: int
    streams: int
    events: int


class Limits(Struct):
    """Beyond these the service answers ``overloaded``.

    Attributes:
        pending: Operations and one-shot waits; also, each on its own, held requests and takers.
        items: Items in queues, those on loan included.
        streams: Readers of ``/v1/events``.
    """

    pending: int
    items: int
    streams: int


class Rates(Struct):
    """Per second, on average over the last whole seconds.

    Attributes:
        window: Over how many seconds; 10, fewer just after the start, 0 in the first second.
        submitted: Operations and one-shot waits.
        completed: Of those that ended.
        expired: Of those that ended.
        cancelled: Of those that ended.
        failed: Of those that ended.
        closed: Of those that ended.
        signals: Whether or not anybody waited.
    """

    window: int
    submitted: float
    completed: float
    expired: float
    cancelled: float
    failed: float
    closed: float
    signals: float


class History(Struct):
    """The last whole seconds one by one, oldest first: columns of the same length, at most 60.

    Attributes:
        until: When the last of them ended.
        submitted: In each second.
        completed: In each second.
        expired: In each second.
        cancelled: In each second.
        failed: In each second.
        closed: In each second.
        signals: In each second.
        pending: At the end of each second.
    """

    until: dt.datetime
    submitted: list[int]
    completed: list[int]
    expired: list[int]
    cancelled: list[int]
    failed: list[int]
    closed: list[int]
    signals: list[int]
    pending: list[int]


class Delay(Struct):
    """How long something took within the window, in seconds; null where nothing happened.

    Attributes:
        count: How often it happened.
        p50: Half took no longer. At most 4.5 % off, as `p99`; what is below 10 microseconds may read as 10.
        p99: All but one in a hundred took no longer.
        max: The longest, exactly.
    """

    count: int
    p50: float | None
    p99: float | None
    max: float | None


class Delays(Struct):
    """Delays of the last minute, not since the start.

    Attributes:
        window: Over how many seconds: 55 to 60, less just after the start.
        wait: From submission to the end, of operations and one-shot waits.
        lateness: From deadline to expiration.
        loop_lag: How late the event loop ran a probe, of which there are ten a second.
    """

    window: float
    wait: Delay
    lateness: Delay
    loop_lag: Delay


class WheelStrip(Struct):
    """One level of the timing wheel as a strip of buckets, as many for every level.

    Attributes:
        ticks_per_bucket: How wide each is.
        first_tick: Where the first begins; it is the one that time is in, and also has what is overdue.
        counts: How many deadlines are in each, in order of time.
    """

    ticks_per_bucket: int
    first_tick: int
    counts: list[int]


class WheelView(Struct):
    """The timing wheel with all deadlines of the service: of operations, held requests, leases, retention.

    Attributes:
        tick: Seconds per tick.
        now_tick: Where the wheel stands.
        entries: The sum of all counts. Each bucket is counted as it is come to; what moves meanwhile may be
            missed, or counted twice.
        levels: The finest first.
    """

    tick: float
    now_tick: int
    entries: int
    levels: list[WheelStrip]


class BusyKey(Struct):
    """A key and how many operations and one-shot waits watch it."""

    key: str
    watchers: int


class OldOperation(Struct):
    """One that has been pending for long.

    Attributes:
        id: Of an operation; null for a one-shot wait, which cannot be named, completed or cancelled.
        keys: What it watches.
        need: Of the signals on them.
        waiting_for: What of that is missing.
        elapsed: Seconds since it was submitted.
        expires_in: Seconds left of its timeout; null without one.
    """

    id: str | None
    keys: tuple[str, ...]
    need: WireNeed
    waiting_for: WaitingFor
    elapsed: float
    expires_in: float | None


class Stats(Struct):
    """The answer of ``GET /v1/admin/stats``.

    Attributes:
        version: Of the package.
        epoch: Changes with every start, as ``X-Purgatory-Epoch``.
        at: Now; what ``counts`` and ``draining`` are of.
        uptime: Seconds since the start.
        draining: Whether nothing new that waits is taken.
        counts: Of this moment.
        limits: As set.
        survey_age: Seconds since all that follows was taken.
        rates: How fast it goes.
        history: The same, second by second.
        delays: How long it takes.
        busiest_keys: At most 10, those with most watchers first; their numbers are of one moment.
        oldest_operations: At most 20, the oldest first.
        wheel: Null if the timer has another queue.
    """

    version: str
    epoch: str
    at: dt.datetime
    uptime: float
    draining: bool
    counts: Counts
    limits: Limits
    survey_age: float
    rates: Rates
    history: History
    delays: Delays
    busiest_keys: list[BusyKey]
    oldest_operations: list[OldOperation]
    wheel: WheelView | None
