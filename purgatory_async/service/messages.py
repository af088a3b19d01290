"""The bodies and answers of the service, as types: what is read from and written as JSON, and nothing else.

A body is checked here for the types of its members and for members nobody knows. Rules on what the values
mean (keys, ids, durations) have their own files, and so have the service's own figures (`figures`). Absent is
`UNSET`, which is not null: a signal may carry null.

What clients attach (``data``, ``value``, ``result``) is never looked into: it is kept and shown as the JSON text
that it was, which takes as much memory as it took bytes and no time to write out again.
"""

import datetime as dt
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

MAX_COUNT: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exact
MAX_VOTER: Final = 512

# What the rest of the service checks, for `openapi`: here these only describe.
KEY_SCHEMA: Final = {
    "minLength": 1,
    "maxLength": 512,  # of bytes, which JSON Schema cannot say
    "pattern": "^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f-\\u009f]+$",
}
ID_SCHEMA: Final = {"pattern": "^[A-Za-z0-9._~-]{1,128}$"}
_LONGEST: Final = 36_525 * 86_400
_DURATION: Final = {"pattern": "^[0-9]{1,9}(ms|s|m)?$"}
_SOME_DURATION: Final = {"pattern": "^0{0,8}[1-9][0-9]{0,8}(ms|s|m)?$"}

_Key = Annotated[str, Meta(extra_json_schema=KEY_SCHEMA)]
_Keys = Annotated[list[_Key], Meta(extra_json_schema={"minItems": 1, "maxItems": 64})]
_Id = Annotated[str, Meta(extra_json_schema=ID_SCHEMA)]
_Timeout = (
    Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": _LONGEST})]
    | Annotated[str, Meta(extra_json_schema=_DURATION)]
    | None
)
_Loan = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": _LONGEST})]
    | Annotated[str, Meta(extra_json_schema=_SOME_DURATION)]
)

Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
State = Literal["pending", "completed", "expired", "cancelled", "failed", "closed"]
"""The outcomes' words, and one for before."""
Attached = Raw | UnsetType


class CountNeed(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """``{"amount": n}`` or ``{"voters": n}``: exactly one of the two."""

    amount: Count | UnsetType = UNSET
    voters: Count | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.amount is UNSET) == (self.voters is UNSET):
            given = "both" if self.amount is not UNSET else "neither"
            raise ValueError(
                f'a need is "any", "all", {{"amount": n}} or {{"voters": n}}, got {given} of the two'
            )


WireNeed = Literal["any", "all"] | CountNeed


def compact(text: Raw) -> Raw:
    """Copy JSON out of the body that it stood in, on one line.

    Args:
        text: A part of a body that was checked to be strict JSON.

    Returns:
        The same value.
    """
    return Raw(msgspec.json.format(bytes(text), indent=-1))


def kept(attached: Attached) -> Attached:
    """`compact` what a client attached; `UNSET` if it attached nothing."""
    return UNSET if attached is UNSET else compact(attached)


class Submit(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations``."""

    keys: _Keys
    need: WireNeed = "any"
    timeout: _Timeout = None
    id: _Id | UnsetType = UNSET
    data: Attached = UNSET


class Complete(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/complete``."""

    result: Attached = UNSET


class SignalBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/keys/{key}/signal``."""

    value: Attached = UNSET
    amount: Count = 1
    voter: Annotated[str, Meta(max_length=MAX_VOTER)] | UnsetType = UNSET


class SignalView(Struct, frozen=True, omit_defaults=True):
    """A signal as operations and one-shot waits show it."""

    key: str
    index: int
    value: Attached = UNSET
    voter: str | UnsetType = UNSET


class WaitingFor(Struct, omit_defaults=True):
    """What a pending operation still misses; exactly one member."""

    any: tuple[str, ...] | UnsetType = UNSET
    all: tuple[str, ...] | UnsetType = UNSET
    amount: int | UnsetType = UNSET
    voters: int | UnsetType = UNSET


class OperationView(Struct):
    """An operation as its status shows it; times are RFC 3339 in UTC, ``elapsed`` is in seconds."""

    id: str
    keys: tuple[str, ...]
    need: WireNeed
    state: State
    submitted_at: dt.datetime
    deadline: dt.datetime | None
    elapsed: float
    signals: tuple[SignalView, ...]
    result: Attached = UNSET
    data: Attached = UNSET
    waiting_for: WaitingFor | UnsetType = UNSET


class OperationList(Struct):
    """The answer of ``GET /v1/operations``; ``next`` is the cursor of the next page, absent on the last."""

    operations: list[Raw]  # of OperationView, encoded one by one to see how large the page grows
    next: str | UnsetType = UNSET


class Signalled(Struct):
    """The answer of ``POST /v1/keys/{key}/signal``."""

    key: str
    index: int
    completed: int


class KeyView(Struct):
    """The answer of ``GET /v1/keys/{key}``."""

    key: str
    index: int
    value: Raw | None


class WaitView(Struct):
    """The answer of ``GET /v1/wait``."""

    signals: tuple[SignalView, ...]


class ItemBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/queues/{queue}/items``."""

    item: Raw


class Delivered(Struct):
    """The answer of ``POST /v1/queues/{queue}/items``: whether a taker has the item already."""

    delivered: bool


class TakeBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/queues/{queue}/take``."""

    lease: _Loan | UnsetType = UNSET


class Leased(Struct):
    """The answer of ``POST /v1/queues/{queue}/take``; ``expires_in`` is in seconds."""

    lease: str
    item: Raw
    expires_in: float


class Health(Struct):
    """The answer of ``/healthz`` and ``/readyz``; it says nothing that a stranger could use."""

    status: str


class OperationEvent(Struct):
    """The data of a ``submitted`` or ``ended`` event.

    Attributes:
        id: Of the operation; null for a one-shot wait, which has none.
        keys: What it watches.
        state: ``pending`` when it was submitted, else how it ended.
        at: When, to the millisecond.
        elapsed: Seconds from submission to the end; 0 when it was submitted.
    """

    id: str | None
    keys: tuple[str, ...]
    state: State
    at: dt.datetime
    elapsed: float


class SignalEvent(Struct):
    """The data of a ``signalled`` event; the ends that the signal brought about come before it.

    Attributes:
        id: Always null: a signal is no operation's.
        keys: The key that was signalled, and no other.
        state: Always null.
        at: When, to the millisecond.
        completed: How many operations and one-shot waits it completed.
    """

    id: None
    keys: tuple[str, ...]
    state: None
    at: dt.datetime
    completed: int


class GapEvent(Struct):
    """The data of a ``gap`` event: what the reader asked for, or was too slow for, is gone.

    Attributes:
        after: The id of the event that the reader had last; null if it is not of this start of the service.
        next: The id of the event that it gets next.
        missed: How many are lost between the two; null without ``after``.
    """

    after: str | None
    next: str
    missed: int | None


class DrainBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/admin/drain``: nothing, or ``{}``."""


class Draining(Struct):
    """The answer of ``POST /v1/admin/drain``.

    Attributes:
        released: How many held requests, takers and readers of events are let go.
        pending: How many operations are pending, and stay so until a signal, their deadline or the end;
            one-shot waits go with their requests.
    """

    released: int
    pending: int


class Fault(Struct):
    """One thing wrong with a body: where (a JSON Pointer, RFC 6901) and what."""

    pointer: str
    detail: str


class ProblemDocument(Struct):
    """RFC 9457: what went wrong, and the members that its slug carries."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] | UnsetType = UNSET
    parameter: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    grammar: str | UnsetType = UNSET
    limit: int | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET
    operation: OperationView | UnsetType = UNSET
