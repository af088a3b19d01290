"""The JSON bodies and answers of the service as types, but those that it shares with the log (`durable.documents`).

Decoding checks the types of a body's members and refuses unknown members. Other modules check keys, ids and
durations; `stats` has the types of the stats.
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.deadlines import PATTERN as INSTANT
from purgatory_async.durable.documents import (
    MAX_CHOICES,
    AnyJson,
    Ask,
    Attached,
    KeyedSignal,
    Moment,
    OperationView,
    SignalView,
    State,
    WireNeed,
)
from purgatory_async.durable.history import SINCE_PATTERN
from purgatory_async.durations import GRAMMAR, UNIT

MAX_LISTED: Final = 4096  # keys of an operation, repeated ones included
MAX_SIGNALS: Final = 1000  # of a batch; as many entries are appended at once

# For `openapi` only: other modules check these rules.
KEY_SCHEMA: Final = {
    "minLength": 1,
    "maxLength": 512,  # bytes, but JSON Schema counts characters
    "pattern": "^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f-\\u009f]+$",
}
ID_SCHEMA: Final = {"pattern": "^[A-Za-z0-9._~-]{1,128}$"}
REFERENCE: Final = "#/components/schemas/{name}"
LONGEST: Final = int(MAX_TIMEOUT)
DURATION: Final = {"pattern": f"^{GRAMMAR}$"}
_SOME_DURATION: Final = {"pattern": f"^(?!0+{UNIT}$){GRAMMAR}$"}

_Key = Annotated[str, Meta(extra_json_schema=KEY_SCHEMA)]
_Keys = Annotated[list[_Key], Meta(extra_json_schema={"minItems": 1, "maxItems": 64})]
_Id = Annotated[str, Meta(extra_json_schema=ID_SCHEMA)]
_Timeout = (
    Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": LONGEST})]
    | Annotated[str, Meta(extra_json_schema=DURATION)]
    | None
)
LeaseDuration = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": LONGEST})]
    | Annotated[str, Meta(extra_json_schema=_SOME_DURATION)]
)


MAX_KEEP: Final = 366 * 86_400
"""The longest time for which an ended operation is kept, in seconds."""
MAX_BY: Final = 128
MAX_COMMENT: Final = 4_096
_Deadline = Annotated[str, Meta(extra_json_schema={"pattern": f"^{INSTANT}$", "format": "date-time"})] | None
_Keep = (
    Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_KEEP})]
    | Annotated[str, Meta(extra_json_schema=DURATION)]
)
_Since = (
    Annotated[int, Meta(ge=0, le=2**63 - 1)]
    | Annotated[str, Meta(extra_json_schema={"pattern": SINCE_PATTERN})]
)
_Queue = Annotated[str, Meta(extra_json_schema=KEY_SCHEMA)] | UnsetType
_By = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_BY})] | UnsetType


class Attach(Struct, forbid_unknown_fields=True):
    """The body of ``PUT /v1/operations/{id}``."""

    keys: _Keys | UnsetType = UNSET
    need: WireNeed = "any"
    timeout: _Timeout = None
    deadline: _Deadline = None
    since: _Since | UnsetType = UNSET
    keep: _Keep | UnsetType = UNSET
    ask: Ask | UnsetType = UNSET
    announce: _Queue = UNSET
    deliver: _Queue = UNSET
    data: Attached = UNSET


class Submit(Attach, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations``."""

    id: _Id | UnsetType = UNSET


class Complete(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/complete``."""

    result: Attached = UNSET
    by: _By = UNSET


class Fail(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/fail``; ``error`` is not null."""

    error: AnyJson
    by: _By = UNSET


class PersonsAnswer(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/answer``."""

    choice: str
    comment: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_COMMENT})] | UnsetType = UNSET
    by: _By = UNSET


class Reschedule(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/reschedule``: one of the two, null for no deadline."""

    timeout: _Timeout | UnsetType = UNSET
    deadline: _Deadline | UnsetType = UNSET


class Forget(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/forget``: nothing, or ``{}``."""


class LinkBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/operations/{id}/links``.

    Attributes:
        by: Who answers by the link.
        choices: The choices that it offers; absent for all.
        expires_in: How long it is good; absent for as long as the question is pending.
    """

    by: str | UnsetType = UNSET
    choices: Annotated[list[str], Meta(min_length=1, max_length=MAX_CHOICES)] | UnsetType = UNSET
    expires_in: LeaseDuration | UnsetType = UNSET


class LinkView(Struct):
    """The answer of ``POST /v1/operations/{id}/links``; ``expires_at`` is null if neither link nor question expires."""

    url: str
    expires_at: Moment | None


class LinkAnswer(Struct, forbid_unknown_fields=True):
    """The body of ``POST /a/{token}``."""

    choice: str
    comment: str | UnsetType = UNSET


class LinkAnswered(Struct):
    """The answer of ``POST /a/{token}``; ``by`` is null if the link has no name."""

    state: State
    result: Attached
    by: str | None


class SignalsBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/signals``."""

    signals: Annotated[list[KeyedSignal], Meta(min_length=1, max_length=MAX_SIGNALS)]


# An OperationView, encoded by itself to bound the page's size.
_Encoded = Annotated[Raw, Meta(extra_json_schema={"$ref": REFERENCE.format(name="OperationView")})]


class OperationList(Struct):
    """The answer of ``GET /v1/operations``; ``next`` is the cursor of the next page, absent on the last."""

    operations: list[_Encoded]
    next: str | UnsetType = UNSET


class Signalled(Struct):
    """The answer of ``POST /v1/keys/{key}/signal``."""

    key: str
    index: int
    completed: int


class SignalledBatch(Struct):
    """The answer of ``POST /v1/signals``; ``index`` is the last signal's."""

    index: int
    completed: int


class KeyView(Struct):
    """The answer of ``GET /v1/keys/{key}``."""

    key: str
    index: int
    value: AnyJson | None


class WaitView(Struct):
    """The answer of ``GET /v1/wait`` without ``since``."""

    signals: tuple[SignalView, ...]
    left_out: int | UnsetType = UNSET  # how many older signals the answer has no room for


class FollowedSignal(Struct, omit_defaults=True):
    """A signal as its followers get it."""

    key: str
    index: int
    value: Attached = UNSET
    amount: int = 1
    voter: str | UnsetType = UNSET


class FollowView(Struct):
    """The answer of ``GET /v1/wait`` with ``since``.

    Attributes:
        signals: Oldest first.
        index: The newest of the service; if there are more signals, the index of the last one here.
        next: The next ``since``.
        more: Whether the answer was cut.
        gap: Whether a signal after ``since`` may be missing.
    """

    signals: list[FollowedSignal]
    index: int
    next: str
    more: bool
    gap: bool


class Health(Struct):
    """The answer of ``/healthz`` and ``/readyz``, both open to strangers."""

    status: str


class OperationEvent(Struct):
    """The data of a ``submitted``, ``rescheduled`` or ``ended`` event.

    Attributes:
        id: The operation's; null for a one-shot wait.
        keys: Its watch keys.
        state: How it ended in ``ended``, else ``pending``.
        at: When, to the millisecond.
        elapsed: Seconds from its submission.
    """

    id: str | None
    keys: tuple[str, ...]
    state: State
    at: Moment
    elapsed: float


class SignalEvent(Struct):
    """The data of a ``signalled`` event; the ``ended`` events that the signal causes come before it.

    Attributes:
        id: Always null.
        keys: Only the signalled key.
        state: Always null.
        at: When, to the millisecond.
        completed: How many operations and one-shot waits it completed.
    """

    id: None
    keys: tuple[str, ...]
    state: None
    at: Moment
    completed: int


class GapEvent(Struct):
    """The data of a ``gap`` event: the feed no longer has the events that the reader needs.

    Attributes:
        next: The id of the event that it gets next; null if there is none yet.
        missed: How many are lost before it; null if that is not known, as after a restart.
    """

    next: str | None
    missed: int | None


class DrainBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/admin/drain``: nothing, or ``{}``."""


class Draining(Struct):
    """The answer of ``POST /v1/admin/drain``.

    Attributes:
        released: How many held requests, takers and readers of events the drain ends.
        pending: How many operations stay pending, until they end or the service stops.
    """

    released: int
    pending: int


class Fault(Struct):
    """A fault in a body: where (a JSON Pointer, RFC 6901) and what."""

    pointer: str
    detail: str


class ProblemDocument(Struct):
    """A problem as in RFC 9457, with the members of its slug."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] | UnsetType = UNSET
    parameter: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    grammar: str | UnsetType = UNSET
    limit: int | str | UnsetType = UNSET
    allowed: int | UnsetType = UNSET
    used: int | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    operation: OperationView | UnsetType = UNSET
    differs: list[str] | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    budget: str | UnsetType = UNSET
    flag: str | UnsetType = UNSET
    state: State | UnsetType = UNSET
    result: Attached = UNSET
    by: str | UnsetType | None = UNSET
