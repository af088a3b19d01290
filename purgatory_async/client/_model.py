"""What the service tells, as values, and what it refuses, as exceptions. Nothing here does I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["Event", "KeyState", "Lease", "Operation", "RequestRefused", "ServiceError", "ServiceUnreachable"]

State = Literal["pending", "completed", "expired", "cancelled", "failed", "closed"]

_TYPE_PREFIX: Final = "urn:purgatory:problem:"


class ServiceError(Exception):
    """Base of what a client raises."""


class ServiceUnreachable(ServiceError):  # noqa: N818 - what happened
    """Nobody answered, or the connection broke, and trying again did not help or was not safe."""


class RequestRefused(ServiceError):  # noqa: N818 - what happened
    """The service answered with a problem document.

    Args:
        status: HTTP's.
        slug: What kind of problem, such as ``unknown-operation``; empty if the answer was no problem document.
        detail: The service's sentence.
        document: All of it.
    """

    def __init__(self, status: int, slug: str, detail: str, document: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {slug}: {detail}" if slug else f"{status}: {detail}")
        self.status = status
        self.slug = slug
        self.detail = detail
        self.document = document

    @classmethod
    def of(cls, status: int, document: object) -> "RequestRefused":
        """Read a problem document, or whatever came in its place."""
        if not isinstance(document, dict):
            return cls(status, "", f"the answer was no problem document but {document!r:.200}", {})
        slug = str(document.get("type", "")).removeprefix(_TYPE_PREFIX)
        return cls(status, slug, str(document.get("detail", document)), document)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the service shows it; times are RFC 3339, ``elapsed`` is in seconds."""

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

    @property
    def pending(self) -> bool:
        """Whether it has not ended."""
        return self.state == "pending"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Operation":
        """Read the service's document; members that this version does not know are left out."""
        known = {name: value for name, value in document.items() if name in cls.__slots__}
        return cls(**{**known, "keys": tuple(known["keys"]), "signals": tuple(known["signals"])})


@dataclass(frozen=True, slots=True)
class KeyState:
    """A key's newest signal. ``index`` 0: it never had one, or it is forgotten."""

    key: str
    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class Lease:
    """An item on loan for ``expires_in`` seconds: acknowledge it or give it back."""

    id: str
    item: Any
    expires_in: float


@dataclass(frozen=True, slots=True)
class Event:
    """A life-cycle event: its number, its kind (``submitted``, ``signalled``, ``ended``, ``gap``) and its data."""

    number: int | None
    kind: str
    data: Any
