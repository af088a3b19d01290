"""The lines of a checkpoint: one JSON object each. Kinds stand here in the order of the file.

Ids of signals are their positions. A signal's text is in the file once, however many operations show it.
"""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from purgatory_async.durable.documents import Ask, Attached, SignalView, State, WireNeed
from purgatory_async.durable.fold.entries import Duration, Instant, Limit, OptionalDuration, Text
from purgatory_async.durable.fold.needs import Progress
from purgatory_async.durable.fold.promises import Ending
from purgatory_async.durable.fold.replays import Replayed
from purgatory_async.durable.fold.shared import Limits, Totals

_LEASE: Final = {"lease_us": "lease"}


class Line(Struct, tag_field="k", frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of a checkpoint; base of all kinds."""


class Head(Line, tag="head", frozen=True):
    """The first line: what the state has once."""

    level: int
    position: int
    at_us: int
    running: str
    floor: int
    limits: Limits
    totals: Totals
    dead: int = 0


class WriterLine(Line, tag="writer", frozen=True):
    """A known writer, the most silent first."""

    name: str
    number: int
    position: int
    at_us: int


class SignalLine(Line, tag="signal", frozen=True):
    """A signal that a key keeps or an operation shows, by index."""

    view: SignalView
    owner: str | None = None


class KeyLine(Line, tag="key", frozen=True):
    """A key, by the index of its newest signal; (index, amount, log time) of each kept one."""

    key: str
    floor: int
    signals: list[tuple[int, int, int]]


class OperationLine(Line, tag="operation", frozen=True):
    """An operation: first those that have ended, in the order in which they go, then the pending ones by position.

    ``deadline_us`` is the present deadline of one that was rescheduled, None for none; ``moved`` is when. The others
    are as in its submission.
    """

    position: int
    id: str
    keys: tuple[str, ...]
    need: WireNeed
    progress: Progress
    submitted_us: int
    timeout_us: int | None
    signals: list[int]
    data: Attached = UNSET
    idem: Text = UNSET
    digest: str = ""
    state: State = "pending"
    ended_us: int = 0
    result: Attached = UNSET
    owner: str | None = None
    until_us: Instant | UnsetType = UNSET
    keep_us: OptionalDuration = UNSET
    ask: Ask | UnsetType = UNSET
    announce: Text = UNSET
    deliver: Text = UNSET
    gap: bool = False
    deadline_us: Instant | UnsetType | None = UNSET
    moved: int = 0
    ending: Ending | None = None
    trace: Text = UNSET


class ForgottenLine(Line, tag="forgotten", frozen=True):
    """The id of a forgotten operation, in the order of forgetting."""

    id: str
    at_us: int
    owner: str | None = None


class GoneLine(Line, tag="gone", frozen=True):
    """The id of a forgotten operation that was kept for a time of its own, in the order in which they go."""

    id: str
    until_us: int
    owner: str | None = None
    idem: Text = UNSET
    digest: str = ""


class ReplayLine(Line, tag="replay", frozen=True):
    """The answer of an Idempotency-Key, the oldest first."""

    idem: str
    digest: str
    answer: Replayed
    at_us: int
    owner: str | None = None


class QueueLine(Line, tag="queue", frozen=True, rename=_LEASE):
    """A queue with settings of its own, by name."""

    queue: str
    lease_us: OptionalDuration = UNSET
    max_attempts: Limit = UNSET
    max_items: Limit = UNSET
    max_bytes: Limit = UNSET


class ItemLine(Line, tag="item", frozen=True):
    """An item in its queue, by place.

    Attributes:
        number: Its name; see `items.Item`.
        queue: The name of its queue.
        item: Its JSON text.
        place: See `items.Item`.
        put_us: The log time of its put.
        attempts: How often it was leased.
        until_us: The log time until which it is hidden; 0 if it is ready.
        since: The position from which on it is hidden.
        owner: Who put it; absent without tokens.
        trace: The ``traceparent`` of the put; absent without tracing.
    """

    number: int | str
    queue: str
    item: Raw
    place: tuple[int, int, int]
    put_us: int
    attempts: int = 0
    until_us: int = 0
    since: int = 0
    owner: str | None = None
    trace: str | None = None


class TakerLine(Line, tag="taker", frozen=True, rename=_LEASE):
    """A taker in line, by position."""

    position: int
    queue: str
    lease_id: str
    lease_us: int
    until_us: int
    writer: str | None
    max: int
    owner: str | None = None
    idem: Text = UNSET
    digest: str = ""


class TakeLine(Line, tag="take", frozen=True):
    """A take with leases that has an Idempotency-Key, by owner and key; see `takes.Take`."""

    idem: str
    digest: str
    taker: str
    shared: bool = False
    owner: str | None = None


class LeaseLine(Line, tag="lease", frozen=True, rename=_LEASE):
    """A lease, in the order in which they began or were extended.

    Attributes:
        position: The position of the entry that began or extended it.
        id: Its own.
        queue: The item's.
        number, item, place, put_us: The item's; see `ItemLine`.
        before: How often the item was leased before.
        until_us: The log time at which it ends.
        lease_us: How long it was to last.
        taker: The id of its taker; absent if the lease has the same id.
        owner: Who took the item; absent without tokens.
        by: Who put it; absent without tokens.
        trace: The item's.
    """

    position: int
    id: str
    queue: str
    number: int | str
    item: Raw
    until_us: int
    place: tuple[int, int, int]
    put_us: int
    lease_us: Duration
    before: int = 0
    taker: Text = UNSET
    owner: str | None = None
    by: str | None = None
    trace: str | None = None


class EndedLeaseLine(Line, tag="ended", frozen=True):
    """The id of a lease that has ended, in the order of their ends."""

    id: str
    at_us: int
    owner: str | None = None


class Foot(Line, tag="foot", frozen=True):
    """The end of a part: the digest of all lines so far but the feet, in hexadecimal; and whether more parts follow.

    The last one has the terms, and the digest of them and of that digest. They say nothing about the state.
    """

    digest: str
    more: bool = False
    terms: tuple[tuple[int, str], ...] = ()
    sealed: str = ""


AnyLine = (
    Head
    | WriterLine
    | SignalLine
    | KeyLine
    | OperationLine
    | ForgottenLine
    | GoneLine
    | ReplayLine
    | QueueLine
    | ItemLine
    | TakerLine
    | TakeLine
    | LeaseLine
    | EndedLeaseLine
    | Foot
)
