"""The results of entries, which answer the requests behind them. Plain data, equal at every replica."""

from typing import Final, Literal

from msgspec import Struct

from purgatory_async.durable.documents import State

Refusal = Literal[
    "already-ended",
    "duplicate-id",
    "forgotten",
    "idempotency-mismatch",
    "lease-expired",
    "limited",
    "limited-bytes",
    "lower-level",
    "no-room",
    "over-budget",
    "overloaded",
    "pending",
    "queue-full",
    "unknown-lease",
    "unknown-operation",
]


class Result(Struct, frozen=True, array_like=True):
    """Base of all results."""


class Submitted(Result, frozen=True, array_like=True, tag=True):
    """The operation exists: pending, or with a timeout of 0 expired.

    Attributes:
        id: Its id.
        state: Its present state, any for one that was submitted before.
        replayed: An earlier entry with the same Idempotency-Key submitted it.
    """

    id: str
    state: State
    replayed: bool = False


class Signalled(Result, frozen=True, array_like=True, tag=True):
    """The signals of the entry were counted.

    Attributes:
        index: The index of the last signal.
        completed: How many operations they completed.
        replayed: By an earlier entry with the same Idempotency-Key.
    """

    index: int
    completed: int
    replayed: bool = False


class Ended(Result, frozen=True, array_like=True, tag=True):
    """The operation has ended by this entry."""

    state: State


class Answered(Result, frozen=True, array_like=True, tag=True):
    """The operation has ended by this entry, or by an equal one before.

    Attributes:
        state: How it ended.
        replayed: By an earlier entry: with the same Idempotency-Key, or the same answer.
    """

    state: State
    replayed: bool = False


class Attached(Result, frozen=True, array_like=True, tag=True):
    """An equal operation has the id; its present state."""

    id: str
    state: State


class Different(Result, frozen=True, array_like=True, tag=True):
    """Another operation of the same owner has the id; the names of the terms that differ."""

    differs: tuple[str, ...]


class Rescheduled(Result, frozen=True, array_like=True, tag=True):
    """The operation expires at another time.

    Attributes:
        deadline_us: The log time; None for never.
        replayed: By an earlier entry with the same Idempotency-Key.
    """

    deadline_us: int | None
    replayed: bool = False


class Put(Result, frozen=True, array_like=True, tag=True):
    """The item is kept or given.

    Attributes:
        item: Its number, the position.
        delivered: Whether a taker has it at once.
        replayed: By an earlier entry with the same Idempotency-Key.
    """

    item: int
    delivered: bool
    replayed: bool = False


class PutSome(Result, frozen=True, array_like=True, tag=True):
    """The items of a batch are kept or given.

    Attributes:
        items: Their numbers, in their order.
        delivered: Whether a taker has each at once.
        replayed: By an earlier entry with the same Idempotency-Key.
    """

    items: tuple[int | str, ...]
    delivered: tuple[bool, ...]
    replayed: bool = False


class Leased(Result, frozen=True, array_like=True, tag="Lent"):  # so digests have it
    """The taker has an item at once; its number. There may be more."""

    item: int | str


class LeasedBefore(Result, frozen=True, array_like=True, tag=True):
    """An earlier taker with the same Idempotency-Key has leases, which last; its id."""

    taker: str


class InLine(Result, frozen=True, array_like=True, tag=True):
    """The taker stands in line."""


class Nothing(Result, frozen=True, array_like=True, tag=True):
    """The taker does not wait, and the queue is empty."""


class Extended(Result, frozen=True, array_like=True, tag=True):
    """The lease ends later, or sooner; after how many microseconds."""

    left_us: int


class Moved(Result, frozen=True, array_like=True, tag=True):
    """How many items were dropped, or came back from the dead ones."""

    items: int


class Refused(Result, frozen=True, array_like=True, tag=True):
    """Nothing has changed; why, as in the problem of that name."""

    why: Refusal


class Dropped(Result, frozen=True, array_like=True, tag=True):
    """The entry is a repetition, or its writer is unknown and must become a new one; nothing has changed."""

    why: Literal["repeated", "unknown-writer"]


class Plain(Result, frozen=True, array_like=True, tag=True):
    """The entry was applied; there is nothing more to say."""


APPLIED: Final = Plain()
OVERLOADED: Final = Refused("overloaded")
OVER_BUDGET: Final = Refused("over-budget")
