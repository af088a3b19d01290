"""The JSON bodies and answers of queues and leases as types; see `messages`."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from purgatory_async.durable.documents import AnyJson, Count, Moment
from purgatory_async.durable.documents.messages import DURATION, LONGEST, LeaseDuration

MAX_BATCH: Final = 100  # items of a put or a take, leases of an acknowledgement

_Delay = (
    Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": LONGEST})]
    | Annotated[str, Meta(extra_json_schema=DURATION)]
)
_Limit = Count | UnsetType | None


class ItemBody(Struct, forbid_unknown_fields=True):
    """An item of ``POST /v1/queues/{queue}/items``; ``delay`` hides it first."""

    item: AnyJson
    delay: _Delay | UnsetType = UNSET


class ItemsBody(Struct, forbid_unknown_fields=True):
    """Several items of ``POST /v1/queues/{queue}/items``, all or none."""

    items: Annotated[list[ItemBody], Meta(min_length=1, max_length=MAX_BATCH)]


class Delivered(Struct):
    """An item that was put: its id, and whether a taker got it at once."""

    id: str
    delivered: bool


class DeliveredItems(Struct):
    """Items that were put, in their order."""

    items: list[Delivered]


class TakeBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/queues/{queue}/take``."""

    lease: LeaseDuration | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=MAX_BATCH)] | UnsetType = UNSET


class Leased(Struct):
    """A leased item; ``expires_in`` is in seconds, ``attempts`` counts this lease."""

    lease: str
    id: str
    item: AnyJson
    attempts: int
    expires_in: float


class LeasedItems(Struct):
    """Leased items, the oldest first."""

    leases: list[Leased]


class ReturnBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/leases/{id}/return``; ``delay`` hides the item in its place."""

    delay: _Delay | UnsetType = UNSET


class ExtendBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/leases/{id}/extend``; without ``lease`` it lasts as long as at first."""

    lease: LeaseDuration | UnsetType = UNSET


class Extended(Struct):
    """The answer of ``POST /v1/leases/{id}/extend``; ``expires_in`` is in seconds."""

    lease: str
    expires_in: float


class LeasesBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/leases/ack`` and ``/v1/leases/return``."""

    leases: Annotated[list[str], Meta(min_length=1, max_length=MAX_BATCH)]


class LeaseFault(Struct):
    """Why one of several leases did not end: where (a JSON Pointer), and the type and status of the problem."""

    pointer: str
    type: str
    status: int


class LeasesEnded(Struct):
    """The answer of ``POST /v1/leases/ack`` and ``/v1/leases/return``: how many ended, and why others did not."""

    done: int
    errors: list[LeaseFault]


class LeaseView(Struct):
    """A lease in the list; ``owner`` is null without tokens."""

    lease: str
    queue: str
    id: str
    attempts: int
    owner: str | None
    expires_in: float


class LeaseList(Struct):
    """The answer of ``GET /v1/leases``, the first to end first; ``next`` is the cursor of the next page."""

    leases: list[LeaseView]
    next: str | UnsetType = UNSET


class QueueBody(Struct, forbid_unknown_fields=True):
    """The body of ``PUT /v1/queues/{queue}``: what differs from the defaults, in full; null is no limit."""

    lease: LeaseDuration | UnsetType = UNSET
    max_attempts: _Limit = UNSET
    max_items: _Limit = UNSET
    max_bytes: _Limit = UNSET


class QueueView(Struct):
    """A queue.

    Attributes:
        queue: Its name.
        items: Items to take.
        delayed: Items to take later.
        leased: Leased items.
        takers: Requests held for an item.
        oldest: Seconds since the first item to take was put; null without one.
        bytes: What its items and leases count.
        lease: How long a lease lasts whose taker did not ask for a length, in seconds.
        max_attempts: How often an item is leased before it is dead; null for no limit.
        max_items: The most items, leased ones included; null for no limit.
        max_bytes: The most bytes that they count; null for no limit.
        dead: The queue of its dead items; null if there is none.
    """

    queue: str
    items: int
    delayed: int
    leased: int
    takers: int
    oldest: float | None
    bytes: int
    lease: float
    max_attempts: int | None
    max_items: int | None
    max_bytes: int | None
    dead: str | None


class QueueList(Struct):
    """The answer of ``GET /v1/queues``, by name; ``next`` is the cursor of the next page."""

    queues: list[QueueView]
    next: str | UnsetType = UNSET


class ItemView(Struct):
    """An item in its queue.

    Attributes:
        id: Its id, which it keeps.
        item: Any JSON.
        attempts: How often it was leased.
        put_at: When it was put; null if that is not known.
        due_at: When it can be taken, of a delayed one.
    """

    id: str
    item: AnyJson
    attempts: int
    put_at: Moment | None
    due_at: Moment | UnsetType = UNSET


class ItemList(Struct):
    """The answer of ``GET /v1/queues/{queue}/items``; ``next`` is the cursor of the next page."""

    items: list[ItemView]
    next: str | UnsetType = UNSET


class Purged(Struct):
    """The answer of ``POST /v1/queues/{queue}/purge``."""

    purged: int


class RedriveBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/queues/{queue}/redrive``; without ``max`` all dead items come back."""

    max: Count | UnsetType = UNSET


class Redriven(Struct):
    """The answer of ``POST /v1/queues/{queue}/redrive``."""

    moved: int


class PurgeBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/queues/{queue}/purge``: nothing, or ``{}``."""
