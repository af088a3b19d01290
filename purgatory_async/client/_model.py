"""The service's documents as values, and its refusals as exceptions, without I/O."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast

from purgatory_async.errors import PurgatoryError

State = Literal["pending", "completed", "expired", "cancelled", "failed", "closed"]

_TYPE_PREFIX: Final = "urn:purgatory:problem:"


class ServiceError(PurgatoryError):
    """Base of a client's exceptions."""


class ServiceUnreachable(ServiceError):  # noqa: N818 - what happened
    """No answer came, or the connection broke, and a retry did not help or was not safe."""


class RequestRefused(ServiceError):  # noqa: N818 - what happened
    """The service answered with a problem document, or another server answered.

    Args:
        status: HTTP's.
        slug: The kind of problem, such as ``unknown-operation``; empty if the answer was not a problem document.
        detail: The service's sentence.
        document: The whole document.
    """

    def __init__(self, status: int, slug: str, detail: str, document: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {slug}: {detail}" if slug else f"{status}: {detail}")
        self.status = status
        self.slug = slug
        self.detail = detail
        self.document = document

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickle and copy, as between processes."""
        return type(self), (self.status, self.slug, self.detail, self.document), self.__dict__

    @classmethod
    def of(cls, status: int, document: object) -> "RequestRefused":
        """Read a problem document, or another answer in its place."""
        if not isinstance(document, dict):
            return cls(status, "", f"the answer must be a problem document, got {document!r:.200}", {})
        problem = cast("dict[str, Any]", document)
        slug = str(problem.get("type", "")).removeprefix(_TYPE_PREFIX)
        return cls(status, slug, str(problem.get("detail", problem)), problem)

    @classmethod
    def not_understood(cls, status: int, document: object) -> "RequestRefused":
        """Read an answer of another server, or of an unknown version of the service."""
        known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        return cls(status, "", f"that is no answer of a purgatory service: {document!r:.200}", known)


class SignalGap(ServiceError):  # noqa: N818 - what happened
    """Some signals may be missing: they are no longer kept, or the service lost its state.

    Args:
        since: The place.
    """

    def __init__(self, since: str) -> None:
        super().__init__(f"signals after {since} may be missing; look at what they are about, then go on")
        self.since = since

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickle and copy, as between processes."""
        return type(self), (self.since,), self.__dict__


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the service shows it; times are RFC 3339, ``elapsed`` and ``keep`` are in seconds.

    ``owner`` is whose token submitted it; None without tokens. ``left_out`` is how many older signals the answer had no
    room for. ``by`` is who ended it, ``via`` whose link that was, ``error`` why it failed. ``gap`` says that a signal
    after its ``since`` may be missing; ``attached`` that it was there already. ``document`` is the service's whole
    document, with members that this version does not know.

    >>> shown = {"id": "o", "keys": ["o"], "need": "any", "state": "completed", "submitted_at": "2026-01-01T12:00:00Z"}
    >>> shown |= {"deadline": None, "elapsed": 60.0, "signals": [], "ask": {"title": "Deploy?"}, "by": "ann"}
    >>> operation = Operation.of({**shown, "result": {"choice": "no"}})
    >>> operation.pending, operation.choice, operation.comment, operation.by
    (False, 'no', None, 'ann')
    """

    id: str
    keys: tuple[str, ...]
    need: Any
    state: State
    submitted_at: str
    deadline: str | None
    elapsed: float
    signals: tuple[Mapping[str, Any], ...]
    result: Any = None
    data: Any = None
    waiting_for: Mapping[str, Any] | None = None
    owner: str | None = None
    left_out: int = 0
    ended_at: str | None = None
    kept_until: str | None = None
    by: str | None = None
    via: str | None = None
    error: Any = None
    ask: Mapping[str, Any] | None = None
    gap: bool = False
    keep: float | None = None
    announce: str | None = None
    deliver: str | None = None
    attached: bool = False
    document: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)

    @property
    def time_left(self) -> float | None:
        """Seconds from its reading until it expires; None without a deadline, and after its end."""
        if self.deadline is None or not self.pending:
            return None
        submitted, deadline = (dt.datetime.fromisoformat(text) for text in (self.submitted_at, self.deadline))
        return max(0.0, (deadline - submitted).total_seconds() - self.elapsed)

    @property
    def pending(self) -> bool:
        """Whether it has not ended."""
        return self.state == "pending"

    @property
    def choice(self) -> str | None:
        """What a person chose; None without a person's answer."""
        return self._answered("choice")

    @property
    def comment(self) -> str | None:
        """What a person wrote with the choice; None for nothing."""
        return self._answered("comment")

    def _answered(self, member: str) -> str | None:
        result: object = self.result
        if self.ask is None or self.state != "completed" or not isinstance(result, dict):
            return None
        return cast("dict[str, str]", result).get(member)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Operation":
        """Read the service's document."""
        known = dict(document)
        if not known.keys() <= _MEMBERS:  # of a newer service
            known = {name: known[name] for name in known.keys() & _MEMBERS}
        known["keys"], known["signals"] = tuple(known["keys"]), tuple(known["signals"])
        return cls(**known, document=document)


_MEMBERS: Final = frozenset(each.name for each in fields(Operation)) - {"document"}


@dataclass(frozen=True, slots=True)
class Link:
    """A link by which a person answers a question; ``expires_at`` is RFC 3339, None if it does not expire."""

    url: str
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class KeyState:
    """A key's newest signal; ``index`` is 0 if it never had one, or the service forgot it."""

    key: str
    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal; ``value`` and ``voter`` are None if it has none.

    ``place`` is where to go on behind it, as ``since`` of `Client.signals`.
    """

    key: str
    index: int
    place: str
    value: Any = None
    amount: int = 1
    voter: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """An item leased for ``expires_in`` seconds: acknowledge it, give it back or extend the lease.

    ``item_id`` is the item's own, which it keeps; ``attempts`` is how often it was leased, this time included.
    """

    id: str
    item: Any
    expires_in: float
    item_id: str = ""
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Loan:
    """A lease in the list; ``owner`` is None without one."""

    lease: str
    queue: str
    item_id: str
    attempts: int
    owner: str | None
    expires_in: float


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """An item in its queue; times are RFC 3339, ``due_at`` is None for one that can be taken."""

    id: str
    item: Any
    attempts: int
    put_at: str | None
    due_at: str | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: what it holds and its settings; seconds, and None for no limit."""

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


@dataclass(frozen=True, slots=True)
class Event:
    """A life-cycle event: its id, its kind (``submitted``, ``signalled``, ``ended``, ``gap``) and its data."""

    id: str | None
    kind: str
    data: Any
