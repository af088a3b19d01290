"""What few operations have: a question, a time for which they are kept, queues that hear of them; and who ended them.

Their ends are what the asker waits for, so with a time to be kept the room of an answer is reserved from the start.
"""

from typing import Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from purgatory_async.durable.documents import Ask, Attached
from purgatory_async.durable.fold.entries import Instant, OptionalDuration, SubmitOperation, Text
from purgatory_async.durable.fold.kept_bytes import (
    ANSWER_BYTES,
    PIECE_BYTES,
    length,
    size_of_terms,
    text_bytes,
)


class Placed(Protocol):
    """An operation, known by its place in the log."""

    position: int


T = TypeVar("T", bound=Placed)

SUBMITTED: Final = "submitted"
ENDED: Final = "ended"
_LONGEST: Final = "completed"  # as a state


class Promise(Struct):
    """What an operation has besides its keys, its need and a deadline that stays.

    Attributes:
        timeout_us, until_us: Its deadline as it was submitted.
        keep_us: How long it is kept after its end; absent for the retention time.
        ask: The question.
        announce, deliver: The queues.
        gap: Whether a signal after the place from which on signals count may be missing.
        moved: The position of the entry that rescheduled it last; 0 for none.
        reserved: The bytes that it counts for its answer, and for the item of its end, until then.
        trace: The ``traceparent`` of its maker.
    """

    timeout_us: int | None
    until_us: Instant | UnsetType = UNSET
    keep_us: OptionalDuration = UNSET
    ask: Ask | UnsetType = UNSET
    announce: Text = UNSET
    deliver: Text = UNSET
    gap: bool = False
    moved: int = 0
    reserved: int = 0
    trace: Text = UNSET

    @classmethod
    def of(cls, order: SubmitOperation) -> "Promise":
        """Return what a submission asks for."""
        return cls(
            order.timeout_us,
            order.until_us,
            order.keep_us,
            order.ask,
            order.announce,
            order.deliver,
            order.gap,
            reserved=reserved_for(order),
            trace=order.trace,
        )


class Ending(Struct, omit_defaults=True, frozen=True):
    """Who ended an operation, and with which kind of answer.

    Attributes:
        how: The kind of the entry.
        by: Who; None if that is not known.
        via: Whose link it came by; None for no link.
        error: Why it failed.
    """

    how: Literal["complete", "fail", "answer"]
    by: str | None = None
    via: str | None = None
    error: Attached = UNSET

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        return length(self.error) + sum(text_bytes(name) for name in (self.by, self.via) if name is not None)


class Questions(dict[int, T]):
    """The operations that ask a person, by the positions of their submissions, until they are forgotten.

    Attributes:
        waiting: The pending ones, the oldest first.
        reserved: The bytes that pending operations, also those without a question, hold free for their ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: Final[dict[int, T]] = {}
        self.reserved = 0

    @property
    def oldest(self) -> T | None:
        """The one that has waited longest; None if none waits."""
        return next(iter(self.waiting.values()), None)

    def begin(self, operation: T, promise: Promise) -> None:
        """Add a pending operation; it need not ask anything. O(1)."""
        self.reserved += promise.reserved
        if promise.ask is not UNSET:
            self[operation.position] = self.waiting[operation.position] = operation

    def end(self, operation: T, promise: Promise) -> int:
        """Note that one is no longer pending; return how many bytes that sets free. O(1)."""
        self.waiting.pop(operation.position, None)
        released, promise.reserved = promise.reserved, 0
        self.reserved -= released
        return released


def reserved_for(order: SubmitOperation) -> int:
    """Return how many bytes a submission reserves until its end. O(1)."""
    size = 0 if isinstance(order.keep_us, UnsetType) else ANSWER_BYTES
    if isinstance(order.deliver, str):
        size += size_of_item(order.deliver, end_item(order.id, _LONGEST))
    return size


def size_of_promise(order: SubmitOperation) -> int:
    """Return what an operation counts for what it promises, while it is pending. O(1)."""
    return size_of_terms(order) + reserved_for(order)


def size_of_item(queue: str, item: Raw) -> int:
    """Return what an item counts, with the name of its queue, which may be new. O(1)."""
    return PIECE_BYTES + len(item) + text_bytes(queue)


def submit_item(operation_id: str) -> Raw:
    """Return the item that tells a submission."""
    return Raw(msgspec.json.encode({"operation": operation_id, "event": SUBMITTED}))


def end_item(operation_id: str, state: str) -> Raw:
    """Return the item that tells an end."""
    return Raw(msgspec.json.encode({"operation": operation_id, "event": ENDED, "state": state}))


def answer_text(choice: str, comment: Text) -> Raw:
    """Return a person's answer as the result of its operation."""
    return Raw(msgspec.json.encode(_Answer(choice, comment)))


class _Answer(Struct):
    choice: str
    comment: Text = UNSET
