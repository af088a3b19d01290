"""The types of ``GET /v1/admin/stats``.

Durations are seconds, times RFC 3339 in UTC. The counts are a snapshot: ``submitted`` is the sum of ``ended`` plus
``pending``. A survey takes the rest in slices, at most once a second (less often with millions of keys);
``survey_age`` is its age.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from purgatory_async.durable.documents import Moment, OperationView, State, WaitingFor, WireNeed


class Ended(Struct):
    """Operations and one-shot waits that ended since the start, by outcome."""

    completed: int
    expired: int
    cancelled: int
    failed: int
    closed: int


class Counts(Struct):
    """A snapshot of the counts.

    Attributes:
        submitted: Operations and one-shot waits since the start; the sum of ``ended`` plus ``pending``.
        ended: Since the start.
        pending: Operations and one-shot waits now.
        watched: Pairs of operation and key now.
        keys: Watched keys now.
        signals: Since the start.
        undelivered: Answers since the start whose client left before they were ready.
        held: Requests that wait now for an operation, a key or a one-shot wait.
        takers: Requests that wait now for an item of a queue.
        gaps: Answers to a follower of signals since the start that one may be missing.
        streams: Readers of ``/v1/events`` now.
        events: Events since the start, which is the number of the newest.
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
    gaps: int
    streams: int
    events: int


class QueueTotals(Struct):
    """All queues together, dead queues included.

    Attributes:
        items: Items that can be taken now.
        delayed: Items that cannot be taken yet.
        leased: Leased items.
        dead: How many went to a dead queue: since the start, with a store since its log began.
        oldest: Seconds since the oldest ready item was put, without dead queues; null if there is none.
    """

    items: int
    delayed: int
    leased: int
    dead: int
    oldest: float | None


class QuestionTotals(Struct):
    """Questions that wait for a person, and what is kept of operations for times of their own.

    Attributes:
        pending: Operations with an ``ask`` that wait.
        oldest: Seconds since the one that has waited longest was submitted; null if none waits.
        kept: Ended operations that are kept for a time of their own.
        kept_bytes: What those count in the limit of bytes, with the ids that are remembered after them.
        reserved_bytes: What pending operations hold free in that limit for their answers and the items of their ends.
    """

    pending: int
    oldest: float | None
    kept: int
    kept_bytes: int
    reserved_bytes: int


class Limits(Struct):
    """The limits above which the service answers ``overloaded``.

    Attributes:
        pending: Operations and one-shot waits; separately also held requests, and takers.
        items: Items in each queue, including leased ones.
        streams: Readers of ``/v1/events``.
    """

    pending: int
    items: int
    streams: int


class Rates(Struct):
    """Averages per second over the last whole seconds.

    Attributes:
        window: How many seconds: 10, fewer just after the start, 0 in the first second.
        submitted: Operations and one-shot waits.
        completed: Operations and one-shot waits that ended as completed.
        expired: Operations and one-shot waits that ended as expired.
        cancelled: Operations and one-shot waits that ended as cancelled.
        failed: Operations and one-shot waits that ended as failed.
        closed: Operations and one-shot waits that ended as closed.
        signals: Whether or not an operation waited.
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
    """The last whole seconds, oldest first, as columns of one length, at most 60.

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

    until: Moment
    submitted: list[int]
    completed: list[int]
    expired: list[int]
    cancelled: list[int]
    failed: list[int]
    closed: list[int]
    signals: list[int]
    pending: list[int]


class Delay(Struct):
    """A distribution of delays within the window, in seconds; null if the count is 0.

    Attributes:
        count: How many delays.
        p50: The median. At most 4.5 % off, as `p99`; delays below 10 microseconds may read as 10.
        p99: The 99th percentile.
        max: The exact maximum.
    """

    count: int
    p50: float | None
    p99: float | None
    max: float | None


class Delays(Struct):
    """Delays of the last minute, not since the start.

    Attributes:
        window: How many seconds: 55 to 60, fewer just after the start.
        wait: From submission to the end, of operations and one-shot waits.
        lateness: From deadline to expiration.
        loop_lag: How late the event loop ran a probe, ten times a second.
    """

    window: float
    wait: Delay
    lateness: Delay
    loop_lag: Delay


class WheelStrip(Struct):
    """One level of the timing wheel; every level has as many buckets.

    Attributes:
        ticks_per_bucket: The width of a bucket.
        first_tick: The start of the first bucket, which contains now and all overdue deadlines.
        counts: The number of deadlines by bucket, in order of time.
    """

    ticks_per_bucket: int
    first_tick: int
    counts: list[int]


class WheelView(Struct):
    """The timing wheel with all deadlines of the service: operations, held requests, leases, retention.

    Attributes:
        tick: Seconds per tick.
        now_tick: The wheel's present tick.
        entries: The sum of all counts. A deadline that moves during the survey may be missed or counted twice.
        operations: How many of them are operations; the others are timers of the service: takers, leases, silence.
        levels: The finest first.
    """

    tick: float
    now_tick: int
    entries: int
    operations: int
    levels: list[WheelStrip]


class BusyKey(Struct):
    """A key and how many operations and one-shot waits watch it."""

    key: str
    watchers: int


class OldOperation(Struct):
    """One of the oldest pending operations and one-shot waits.

    Attributes:
        id: The operation's; null for a one-shot wait, which cannot be completed or cancelled.
        keys: Its watch keys.
        need: Its need.
        waiting_for: What the need still misses.
        elapsed: Seconds since it was submitted.
        expires_in: Seconds left of its timeout; null without one.
    """

    id: str | None
    keys: tuple[str, ...]
    need: WireNeed
    waiting_for: WaitingFor
    elapsed: float
    expires_in: float | None


class JournalView(Struct):
    """The journal of ``--journal``.

    Attributes:
        buffered: Records that wait for the disk.
        max_buffered: Their bound; with ``--journal-full refuse`` new operations are refused from half of it on.
        dropped: Records that were lost since the start.
        bytes: Size of its segments, at most a minute ago.
        free_bytes: What its disk had left then.
        disk_bytes: Size of its disk.
        removed: Old segments that were removed since the start.
        warnings: What to look at now: ``disk`` cannot be written to, ``buffer`` fills up, ``space`` runs out.
    """

    buffered: int
    max_buffered: int
    dropped: int
    bytes: int
    free_bytes: int
    disk_bytes: int
    removed: int
    warnings: list[Literal["disk", "buffer", "space"]]


class Stats(Struct):
    """The answer of ``GET /v1/admin/stats``.

    Attributes:
        version: The version of the package.
        epoch: As ``X-Purgatory-Epoch``; in memory it changes with every start.
        position: The position applied when the counts were taken.
        level: The level of the log's entries.
        lag: Seconds since this worker had applied all that it knew of; 0 if it has.
        store_cause: Why the store does not serve now, as in ``/readyz``; null while it does.
        worker: The number of the worker that answers; null if it has no supervisor.
        at: The time of the snapshot: of ``counts`` and ``draining``.
        uptime: Seconds since the start.
        draining: Whether the service refuses new waits.
        counts: A snapshot.
        questions: A snapshot.
        queues: A snapshot; the oldest item is as of the survey or a later scrape.
        limits: From the settings.
        journal: Null without one.
        survey_age: Seconds since the survey that took the members below.
        rates: Per second.
        history: Second by second.
        delays: The delays of the last minute.
        busiest_keys: At most 10, most watchers first; their numbers are a snapshot.
        oldest_operations: At most 20, the oldest first.
        wheel: Null if the timer uses another queue.
        digest: The digest of the state there, equal at every worker and after a restart; only if the query asks.
    """

    version: str
    epoch: str
    position: int
    level: int
    lag: float
    store_cause: str | None
    worker: int | None
    at: Moment
    uptime: float
    draining: bool
    counts: Counts
    questions: QuestionTotals
    queues: QueueTotals
    limits: Limits
    journal: JournalView | None
    survey_age: float
    rates: Rates
    history: History
    delays: Delays
    busiest_keys: list[BusyKey]
    oldest_operations: list[OldOperation]
    wheel: WheelView | None
    digest: str | UnsetType = UNSET


class WorkerView(Struct):
    """A process that writes to the store.

    Attributes:
        name: The name under which it appends.
        own: Whether it is the one that answers.
        entries: How many it appended under this name.
        position: The position of its last entry.
        silent: Seconds since its last entry; a worker appends at least one in ten.
        takers: How many takers it has in line.
    """

    name: str
    own: bool
    entries: int
    position: int
    silent: float
    takers: int


class DashboardFeed(Stats, kw_only=True):
    """What the dashboard draws once a second.

    Attributes:
        workers: Workers that wrote to the store in the last ten minutes; null without a store.
        may_end: Whether the request's token may complete and cancel operations.
    """

    workers: list[WorkerView] | None
    may_end: bool


class FoundOperation(OldOperation, kw_only=True):
    """An operation that the dashboard searched for.

    Attributes:
        title: What it asks a person; absent if it asks nothing.
    """

    title: str | UnsetType = UNSET


class SearchPage(Struct):
    """A page of the operations that the dashboard searched for.

    Attributes:
        total: How many pending operations and one-shot waits match.
        first: How many of them come before the page.
        operations: Operations on the page, oldest first, then one-shot waits.
        ended: How the operation with exactly this id ended; null if there is none, or if it is pending.
    """

    total: int
    first: int
    operations: list[FoundOperation]
    ended: State | None


class QuestionPage(Struct):
    """A page of questions.

    Attributes:
        total: How many questions are in this state.
        first: How many of them come before the page.
        operations: The questions of the page, without data and signals: first pending ones as they were asked, then
            ended ones, the last end first.
        may_answer: Whether the request's token may answer questions, and complete operations.
    """

    total: int
    first: int
    operations: list[OperationView]
    may_answer: bool
