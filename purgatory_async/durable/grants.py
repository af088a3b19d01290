"""What a token may do: its scopes, the names that it may use, its owner, and the owner's limits."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import UNSET, UnsetType

_SECOND_NS: Final = 1_000_000_000
PERIODS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""The seconds of each unit after the slash of a rate."""


class Permission(StrEnum):
    """The scopes of a token; `ADMIN` includes all others."""

    READ = "read"
    WAIT = "wait"
    SIGNAL = "signal"
    ANSWER = "answer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Rate:
    """How many requests an owner may send.

    Attributes:
        number: How many requests.
        seconds: In how many seconds: one of `PERIODS`.
    """

    number: int
    seconds: int

    def __str__(self) -> str:
        [unit] = [unit for unit, seconds in PERIODS.items() if seconds == self.seconds]
        return f"{self.number}/{unit}"

    @property
    def every_ns(self) -> int:
        """After how many nanoseconds one more request is allowed."""
        return _SECOND_NS * self.seconds // self.number

    @property
    def burst(self) -> int:
        """How many requests are allowed at once: as many as in one second, at least one."""
        return max(1, self.number // self.seconds)


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """What one owner may use; None for no limit of its own.

    Attributes:
        max_pending: Operations and one-shot waits at once.
        max_bytes: Pinned bytes of what it made.
        rate: The rate of requests.
    """

    max_pending: int | None = None
    max_bytes: int | None = None
    rate: Rate | None = None


NO_LIMITS: Final = OwnerLimits()


@dataclass(frozen=True, slots=True)
class Grant:
    """What a request may do, by its token.

    Attributes:
        owner: Owns what the request makes; None without tokens.
        scopes: With `Permission.ADMIN` all of them.
        prefixes: Its keys, prefixes and queues begin with one of these; any, if there are none.
        limits: The limits of its owner.
        digest: The SHA-256 of the token, by which it is found again.
    """

    owner: str | None
    scopes: frozenset[Permission]
    prefixes: tuple[str, ...] = ()
    limits: OwnerLimits = NO_LIMITS
    digest: bytes = field(default=b"", repr=False)

    @property
    def bound_to(self) -> str | None:
        """Whose operations and leases it may change; None for anyone's."""
        return None if Permission.ADMIN in self.scopes else self.owner

    @property
    def quota(self) -> int | UnsetType:
        """How many bytes its owner may have pinned; `UNSET` for any number."""
        return UNSET if self.limits.max_bytes is None else self.limits.max_bytes

    def covers(self, name: str) -> bool:
        """Whether it may use a key, a prefix or a queue. O(prefixes)."""
        return not self.prefixes or name.startswith(self.prefixes)

    def covers_all(self, names: Iterable[str]) -> bool:
        """Whether it may use all of some keys. O(keys and prefixes)."""
        prefixes = self.prefixes
        return not prefixes or all(name.startswith(prefixes) for name in names)

    def sees(self, owner: str | None, *names: str) -> bool:
        """Whether it may see what an owner made, with these keys, or in this queue."""
        own = self.owner is None or owner == self.owner
        return (own or Permission.READ in self.scopes) and self.covers_all(names)

    def answers(self, *keys: str) -> bool:
        """Whether it may answer an operation with these keys, and so see it."""
        return Permission.ANSWER in self.scopes and self.covers_all(keys)

    def sees_forgotten(self, owner: str | None) -> bool:
        """Whether it may see that something of an owner existed whose keys are no longer known."""
        own = owner is not None and owner == self.owner
        return own or (not self.prefixes and (self.sees(owner) or self.answers()))

    def may_change(self, owner: str | None) -> bool:
        """Whether it may change what an owner made."""
        bound_to = self.bound_to
        return bound_to is None or owner == bound_to


UNBOUND: Final = Grant(None, frozenset(Permission))
"""What every request may do where no tokens are asked for."""


def short_name(token: bytes) -> str:
    """Return the owner of a token that has no name: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(token).hexdigest()[:8]
