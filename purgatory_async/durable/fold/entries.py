"""The entries of the log, as objects: every change of the state, and the passing of time.

Members are named as in the log's JSON, except that `writer`, `number` and `quota` are ``w``, ``n`` and ``room`` there,
and that durations, integers in microseconds, lack their ``_us``. No entry contains the time: the log stamps it. Ids are
chosen before an entry is appended, and attachments are one line of JSON, as `messages.compact` makes it.

msgspec's structs are the type: to make one took 0.3 µs where a dataclass with slots took 0.8 and a named tuple 1.1. The
service needs msgspec anyway, and an entry that was never text costs no JSON.
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from purgatory_async.durable.documents import Ask, Attached, Count, KeyedSignal, WireNeed

Text = str | UnsetType
Duration = Annotated[int, Meta(ge=0, le=3_155_760_000_000_000)]
"""Microseconds, at most 100 years."""
Setting = Annotated[int, Meta(ge=1)] | UnsetType
OptionalDuration = Duration | UnsetType
Instant = Annotated[int, Meta(ge=0)]
"""A log time."""
Limit = Count | UnsetType | None
_IN_LOG: Final = {"writer": "w", "number": "n", "quota": "room"}


def json_name(name: str) -> str:
    """Return the name of a member in the log: units of durations are in Python's names only."""
    return _IN_LOG.get(name) or name.removesuffix("_us")


class Entry(
    Struct,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="k",
    rename=json_name,
):
    """An entry; base of all kinds.

    Attributes:
        writer: The run of the worker that appended it; None for one made in SQL or without a log.
        number: The number of the entry among its writer's, from 1.
    """

    writer: str | None = None
    number: int = 0

    @property
    def positions(self) -> int:
        """How many positions it takes in the log: its own, and before it ticks, added where missing."""
        return 1

    @property
    def needed_level(self) -> int:
        """The level that the log must have."""
        return 1


class SubmitOperation(Entry, tag="submit"):
    """A new pending operation.

    Attributes:
        id: Its id.
        keys: Its distinct watch keys, at least one.
        need: Its condition.
        timeout_us: Its deadline, from the entry's log time; None for none, 0 ends it in this step.
        data: The client's attachment.
        idem: The Idempotency-Key.
        digest: The digest of the request, to compare with an earlier one of the same key.
        owner: Who submits it; None without tokens.
        most: How many operations the owner may have pending, this one included; absent for any number.
        quota: How many bytes the owner may have pinned, these included; absent for any number.
        until_us: Its deadline as a log time, in place of ``timeout_us``; what is past ends it in this step.
        since: The index after which kept signals on its keys count in this step; absent for none.
        gap: Whether the caller's place is of another history, so that signals may be missing.
        keep_us: How long it is kept after its end, whatever the room; absent for the retention time.
        ask: A question for a person.
        announce: The queue that gets an item in this step.
        deliver: The queue that gets an item in the step of its end.
        attach: Whether an equal one of the owner with this id is the answer; then a forgotten id stays taken.
        trace: The ``traceparent`` of its maker (W3C Trace Context); absent without tracing.
    """

    id: str
    keys: Annotated[tuple[str, ...], Meta(min_length=1)]
    need: WireNeed = "any"
    timeout_us: Duration | None = None
    data: Attached = UNSET
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None
    most: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    quota: Setting = UNSET
    until_us: Instant | UnsetType = UNSET
    since: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    gap: bool = False
    keep_us: OptionalDuration = UNSET
    ask: Ask | UnsetType = UNSET
    announce: Text = UNSET
    deliver: Text = UNSET
    attach: bool = False
    trace: Text = UNSET

    @property
    def promises(self) -> bool:
        """Whether the operation has more than keys, a need and a timeout."""
        return self.gap or not (
            self.until_us is self.keep_us is self.ask is self.announce is self.deliver is self.trace is UNSET
        )

    @property
    def needed_level(self) -> int:
        """3 with a trace, 2 with another member of its own."""
        if self.trace is not UNSET:
            return 3
        return 2 if self.promises or self.attach or self.since is not UNSET else 1


class SignalKey(Entry, tag="signal"):
    """A signal on a key; operations on the key count it, the oldest first."""

    key: str
    value: Attached = UNSET
    amount: Count = 1
    voter: Text = UNSET
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None
    quota: Setting = UNSET


class SignalKeys(Entry, tag="signals"):
    """Signals that happen in one step, in this order; they have the indexes that end with the entry's position."""

    signals: Annotated[tuple[KeyedSignal, ...], Meta(min_length=1)]
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None
    quota: Setting = UNSET

    @property
    def positions(self) -> int:
        """One for each signal."""
        return len(self.signals)


class EndOperation(Entry, tag="end"):
    """The end of an operation by a client; of an owner's operation only, if it names one."""

    id: str
    how: Literal["completed", "cancelled"]
    result: Attached = UNSET
    owner: str | None = None


class _OfLevel2(Entry):
    """A kind that level 1 does not have."""

    @property
    def needed_level(self) -> int:
        """2."""
        return 2


class AnswerEntry(_OfLevel2, kw_only=True):
    """An end of an operation with an answer; base of its kinds.

    Attributes:
        id: The operation.
        submitted: The position of its submission, so that it is no later one with the same id; 0 for any.
        by: Who answers; None if that is not known.
        via: Whose link the answer came by; None for no link.
        idem: The Idempotency-Key.
        digest: The digest of the request.
        owner: Who sends it, in whose space the key is; None without tokens.
    """

    id: str
    submitted: Annotated[int, Meta(ge=0)] = 0
    by: str | None = None
    via: str | None = None
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None


class CompleteOperation(AnswerEntry, tag="complete"):
    """An operation is completed, by a program."""

    result: Attached = UNSET


class FailOperation(AnswerEntry, tag="fail", kw_only=True):
    """An operation has failed: what it waits for cannot come."""

    error: Raw


class AnswerOperation(AnswerEntry, tag="answer", kw_only=True):
    """A person answers the question of an operation: completes it with a choice, which it has."""

    choice: str
    comment: Text = UNSET


class RescheduleOperation(_OfLevel2, tag="reschedule", kw_only=True):
    """A pending operation expires at another time; of an owner's operation only, if ``maker`` names one.

    Attributes:
        id: The operation.
        timeout_us: How long from the entry's log time; None for never, unless there is ``until_us``.
        until_us: The log time.
        maker: Whose operation it must be; None for anyone's.
        idem, digest, owner: As of `AnswerEntry`.
    """

    id: str
    timeout_us: Duration | None = None
    until_us: Instant | UnsetType = UNSET
    maker: str | None = None
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None


class ForgetOperation(_OfLevel2, tag="forget", kw_only=True):
    """An ended operation is forgotten, as if it had been kept long enough; ``maker`` as of `RescheduleOperation`."""

    id: str
    maker: str | None = None


class PutItem(Entry, tag="put"):
    """An item for the oldest taker of a queue; kept while there is none.

    Attributes:
        queue: The queue.
        item: Its JSON text.
        delay_us: How long it is hidden first.
        idem: The Idempotency-Key.
        digest: The digest of the request.
        owner: Who puts it; None without tokens.
        trace: As of `SubmitOperation`.
    """

    queue: str
    item: Raw
    delay_us: Duration
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None
    quota: Setting = UNSET
    trace: Text = UNSET

    @property
    def needed_level(self) -> int:
        """3 with a trace."""
        return 1 if self.trace is UNSET else 3


class NewItem(Struct, forbid_unknown_fields=True, omit_defaults=True, rename=json_name):
    """One of several items, and how long it is hidden first."""

    item: Raw
    delay_us: Duration = 0


class PutItems(Entry, tag="puts"):
    """Items for one queue in one step, all or none, in this order."""

    queue: str
    items: Annotated[tuple[NewItem, ...], Meta(min_length=1)]
    idem: Text = UNSET
    digest: str = ""
    owner: str | None = None
    quota: Setting = UNSET
    trace: Text = UNSET

    @property
    def needed_level(self) -> int:
        """3 with a trace."""
        return 1 if self.trace is UNSET else 3


class WantItem(Entry, tag="want", kw_only=True):
    """A taker: leases the oldest items of a queue, or stands in line.

    Attributes:
        queue: The queue.
        lease_id: Names the taker, and then its lease; of several leases the first.
        lease_us: How long a lease lasts, from the log time at which it begins; absent for the queue's own.
        wait_us: How long it stands in line; 0 not at all.
        max: The most items.
        owner: Whose the leases will be; None without tokens.
        idem: The Idempotency-Key.
        digest: The digest of the request.
    """

    queue: str
    lease_id: str
    lease_us: OptionalDuration = UNSET
    wait_us: Duration = 0
    max: Count
    owner: str | None = None
    idem: Text = UNSET
    digest: str = ""

    @property
    def needed_level(self) -> int:
        """2 with an Idempotency-Key."""
        return 1 if self.idem is UNSET else 2


class LeaveLine(Entry, tag="gone"):
    """The taker's client has left: it leaves the line, or its items go back as if they had not been leased."""

    lease_id: str


class EndLease(Entry, tag="done"):
    """The end of a lease: acknowledged, or with ``back`` the item goes back to its place, hidden there for a delay.

    If it names an owner, it is for leases of that owner only.
    """

    lease_id: str
    back: bool = False
    delay_us: Duration = 0
    owner: str | None = None


class ExtendLease(Entry, tag="extend"):
    """A lease starts anew, as long as at first or for another duration. An owner is checked as for `EndLease`."""

    lease_id: str
    lease_us: OptionalDuration = UNSET
    owner: str | None = None


class SetQueue(Entry, tag="queue"):
    """All settings of a queue; an absent one is as for every queue, None is no limit.

    Attributes:
        queue: The queue.
        lease_us: How long a lease lasts whose taker did not ask for a length.
        max_attempts: How often an item is leased before it goes to the dead ones.
        max_items: The most items, hidden and leased ones included.
        max_bytes: The most bytes that they count.
    """

    queue: str
    lease_us: OptionalDuration = UNSET
    max_attempts: Limit = UNSET
    max_items: Limit = UNSET
    max_bytes: Limit = UNSET

    @property
    def empty(self) -> bool:
        """Whether nothing is set."""
        return self.lease_us is self.max_attempts is self.max_items is self.max_bytes is UNSET


class PurgeQueue(Entry, tag="purge"):
    """All items of a queue are dropped but the leased ones."""

    queue: str


class RedriveItems(Entry, tag="redrive"):
    """The dead items of a queue come back behind those that wait, the oldest first; at most ``max``."""

    queue: str
    max: Count | UnsetType = UNSET


class Tick(Entry, tag="tick"):
    """Lets time pass."""


class Alive(Entry, tag="alive"):
    """The writer is alive; its first entry.

    Attributes:
        position: One that the writer has applied.
        digest: Its running digest there, in hexadecimal.
    """

    position: Annotated[int, Meta(ge=0)] = 0
    digest: str = ""


class SetLimits(Entry, tag="limits"):
    """Changes the limits that it names from here on; see `shared.Limits`."""

    max_pending: Setting = UNSET
    max_items: Setting = UNSET
    retention_us: OptionalDuration = UNSET
    keep_signals: Setting = UNSET
    keep_for_us: OptionalDuration = UNSET
    max_lease_us: OptionalDuration = UNSET
    max_kept: Setting = UNSET


class SetLevel(Entry, tag="level"):
    """The version of the entries and of the fold from here on."""

    level: Annotated[int, Meta(ge=1)]


Keeping = SubmitOperation | SignalKey | SignalKeys | PutItem | PutItems
"""What adds to the bytes that are kept."""

AnyAnswer = CompleteOperation | FailOperation | AnswerOperation

AnyEntry = (
    SubmitOperation
    | SignalKey
    | SignalKeys
    | EndOperation
    | AnyAnswer
    | RescheduleOperation
    | ForgetOperation
    | PutItem
    | PutItems
    | WantItem
    | LeaveLine
    | EndLease
    | ExtendLease
    | SetQueue
    | PurgeQueue
    | RedriveItems
    | Tick
    | Alive
    | SetLimits
    | SetLevel
)
