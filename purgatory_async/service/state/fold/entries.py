"""The entries of the log, as objects: every change of the state, and the passing of time.

Their members have the names of the log's JSON; `writer` and `number` are ``w`` and ``n`` there. All durations are
integers in microseconds. No entry contains the time: the log stamps it. Ids are chosen before an entry is appended, and
attachments are one line of JSON, as `messages.compact` makes it.

msgspec's structs are the type: to make one took 0.3 µs where a dataclass with slots took 0.8 and a named tuple 1.1. The
service needs msgspec anyway, and an entry that was never text costs no JSON.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from purgatory_async.service.messages import Attached, Count, KeyedSignal, WireNeed

Text = str | UnsetType
Duration = Annotated[int, Meta(ge=0, le=3_155_760_000_000_000)]
"""Microseconds, at most 100 years."""
Setting = Annotated[int, Meta(ge=1)] | UnsetType
OptionalDuration = Duration | UnsetType


class Entry(
    Struct,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="k",
    rename={"writer": "w", "number": "n"},
):
    """An entry; base of all kinds.

    Attributes:
        writer: The run of the worker that appended it; None for one made in SQL or without a log.
        number: Of the entry among its writer's, from 1.
    """

    writer: str | None = None
    number: int = 0

    @property
    def places(self) -> int:
        """How many positions it takes in the log: its own, and before that those of as many ticks as are missing."""
        return 1


class SubmitOperation(Entry, tag="submit"):
    """A new pending operation.

    Attributes:
        id: Its id.
        keys: Its distinct watch keys, at least one.
        need: Its condition.
        timeout: Its deadline, from the entry's log time; None for none, 0 ends it in this step.
        data: The client's attachment.
        idem: The Idempotency-Key.
        digest: Of the request, to compare with an earlier one of the same key.
    """

    id: str
    keys: Annotated[tuple[str, ...], Meta(min_length=1)]
    need: WireNeed = "any"
    timeout: Duration | None = None
    data: Attached = UNSET
    idem: Text = UNSET
    digest: str = ""


class SignalKey(Entry, tag="signal"):
    """A signal on a key; operations on the key count it, the oldest first."""

    key: str
    value: Attached = UNSET
    amount: Count = 1
    voter: Text = UNSET
    idem: Text = UNSET
    digest: str = ""


class SignalKeys(Entry, tag="signals"):
    """Signals that happen in one step, in this order; they have the indexes that end with the entry's position."""

    signals: Annotated[tuple[KeyedSignal, ...], Meta(min_length=1)]
    idem: Text = UNSET
    digest: str = ""

    @property
    def places(self) -> int:
        """One for each signal."""
        return len(self.signals)


class EndOperation(Entry, tag="end"):
    """The end of an operation by a client."""

    id: str
    how: Literal["completed", "cancelled"]
    result: Attached = UNSET


class PutItem(Entry, tag="put"):
    """An item for the oldest taker of a queue; kept while there is none."""

    queue: str
    item: Raw
    idem: Text = UNSET
    digest: str = ""


class WantItem(Entry, tag="want"):
    """A taker: takes the oldest item of a queue on loan, or stands in line.

    Attributes:
        queue: The queue.
        lease_id: Names the taker, and then its loan.
        lease: How long the loan lasts, from the log time at which it begins.
        wait: How long it stands in line; 0 not at all.
    """

    queue: str
    lease_id: str
    lease: Duration
    wait: Duration = 0


class LeaveLine(Entry, tag="gone"):
    """The taker's client has left: it leaves the line, or its item goes back."""

    lease_id: str


class EndLease(Entry, tag="done"):
    """The end of a loan: acknowledged, or with ``back`` the item goes back in front of its queue."""

    lease_id: str
    back: bool = False


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
    retention: OptionalDuration = UNSET
    keep_signals: Setting = UNSET
    keep_for: OptionalDuration = UNSET
    max_bytes: Setting = UNSET
    max_lease: OptionalDuration = UNSET


class SetLevel(Entry, tag="level"):
    """The version of the entries and of the fold from here on."""

    level: Annotated[int, Meta(ge=1)]


AnyEntry = (
    SubmitOperation
    | SignalKey
    | SignalKeys
    | EndOperation
    | PutItem
    | WantItem
    | LeaveLine
    | EndLease
    | Tick
    | Alive
    | SetLimits
    | SetLevel
)
