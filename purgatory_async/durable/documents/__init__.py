"""The documents that entries of the log and answers to clients share, as types.

Attachments (``data``, ``value``, ``result``) stay JSON text: it needs no more memory than its bytes and no encoding.
`UNSET` means absent, which is not null: a signal may carry null.
"""

import datetime as dt
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

MAX_COUNT: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exact
MAX_VOTER: Final = 512
Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
MAX_VOTERS: Final = 10_000
"""The most voters that an operation waits for: it keeps the names of all."""
State = Literal["pending", "completed", "expired", "cancelled", "failed", "closed"]
"""``pending`` or an outcome."""
Moment = Annotated[dt.datetime, Meta(tz=True)]
AnyJson = Annotated[Raw, Meta(description="Any JSON")]
Attached = AnyJson | UnsetType


class CountNeed(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """``{"amount": n}`` or ``{"voters": n}``: exactly one of the two."""

    amount: Count | UnsetType = UNSET
    voters: Annotated[int, Meta(ge=1, le=MAX_VOTERS)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.amount is UNSET) == (self.voters is UNSET):
            given = "both" if self.amount is not UNSET else "neither"
            raise ValueError(
                f'a need must be "any", "all", {{"amount": n}} or {{"voters": n}}, got {given} of the two'
            )


WireNeed = Literal["any", "all"] | CountNeed


MAX_TITLE: Final = 200
MAX_TEXT: Final = 8_192
MAX_CHOICES: Final = 8
MAX_CHOICE: Final = 64
Choice = Annotated[str, Meta(min_length=1, max_length=MAX_CHOICE)]


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """A question for a person, in plain text; lengths are in code points."""

    title: Annotated[str, Meta(min_length=1, max_length=MAX_TITLE)]
    text: Annotated[str, Meta(max_length=MAX_TEXT)] | UnsetType = UNSET
    choices: Annotated[tuple[Choice, ...], Meta(min_length=1, max_length=MAX_CHOICES)] = ("ok",)
    comment: Literal["none", "optional", "required"] = "none"


def compact(text: Raw) -> Raw:
    """Copy part of a checked body, as one line of JSON."""
    return Raw(msgspec.json.format(bytes(text), indent=-1))


def kept(attached: Attached) -> Attached:
    """`compact` an attachment; `UNSET` stays `UNSET`."""
    return UNSET if attached is UNSET else compact(attached)


class SignalBody(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/keys/{key}/signal``."""

    value: Attached = UNSET
    amount: Count = 1
    voter: Annotated[str, Meta(max_length=MAX_VOTER)] | UnsetType = UNSET


class KeyedSignal(SignalBody, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A signal of ``POST /v1/signals``."""

    key: str


class SignalView(Struct, frozen=True, omit_defaults=True):
    """A signal as operations and one-shot waits show it."""

    key: str
    index: int
    value: Attached = UNSET
    voter: str | UnsetType = UNSET


class WaitingFor(Struct, omit_defaults=True):
    """What a pending operation still needs; exactly one member."""

    any: tuple[str, ...] | UnsetType = UNSET
    all: tuple[str, ...] | UnsetType = UNSET
    amount: int | UnsetType = UNSET
    voters: int | UnsetType = UNSET


class OperationView(Struct):
    """An operation as its status shows it; times are RFC 3339 in UTC, ``elapsed`` and ``keep`` are in seconds.

    ``owner`` is whose token submitted it; absent without tokens. ``by`` is who ended it, ``via`` whose link that was.
    ``gap`` says that a signal after its ``since`` may be missing.
    """

    id: str
    keys: tuple[str, ...]
    need: WireNeed
    state: State
    submitted_at: Moment
    deadline: Moment | None
    elapsed: float
    signals: tuple[SignalView, ...]
    ended_at: Moment | None = None
    kept_until: Moment | None = None
    by: str | None = None
    via: str | UnsetType = UNSET
    result: Attached = UNSET
    error: Attached = UNSET
    data: Attached = UNSET
    waiting_for: WaitingFor | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    ask: Ask | UnsetType = UNSET
    gap: bool | UnsetType = UNSET
    keep: float | UnsetType = UNSET
    announce: str | UnsetType = UNSET
    deliver: str | UnsetType = UNSET
    left_out: int | UnsetType = UNSET  # how many older signals the answer has no room for
