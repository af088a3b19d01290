"""The heads of requests, for all that look into them: access, the request's id, endpoints.

A client repeats its heads, all but their targets. So the connection parses the rest once and keeps it as a `Profile`:
all requests with the same fields share their index, and what was decided by the fields alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from msgspec import Struct

Field = tuple[bytes, bytes]
"""A name in lower case, as ASGI requires, and a value."""

Address = tuple[str, int | None] | None
"""The address that a connection reached, a Unix socket's path included; None if it is not known."""

_ID: Final = re.compile(rb"[A-Za-z0-9._~-]{1,128}")
# Few requests name a state that must have been reached, or may be repeated.
_RARE: Final = frozenset({b"x-purgatory-position", b"idempotency-key"})
_NONE: Final[tuple[bytes, ...]] = ()


class Fields(tuple[Field, ...]):  # noqa: SLOT001 - a tuple can have none
    """Header fields in order, with their index.

    Attributes:
        by_name: The values of each name, in order; not to be changed.
    """

    by_name: Mapping[bytes, Sequence[bytes]]

    def __new__(cls, fields: Iterable[Field] = ()) -> Self:
        """Index the fields. O(fields)."""
        made = super().__new__(cls, fields)
        index: dict[bytes, list[bytes]] = {}
        for name, value in made:
            index.setdefault(name, []).append(value)
        made.by_name = index
        return made

    def values(self, name: str) -> Sequence[bytes]:
        """Return the values of one name in lower case, in order. O(1)."""
        return self.by_name.get(name.encode(), _NONE)

    def text(self, name: str) -> str | None:
        """Return the values of one name in lower case, joined by commas; None if it is absent. O(1)."""
        values = self.by_name.get(name.encode())
        return None if values is None else b", ".join(values).decode("latin-1")


class Profile:
    """What the heads of a client have in common: all but the target.

    Args:
        method: HTTP's; empty if the head is malformed.
        version: ``1.0`` or ``1.1``.
        fields: Lower-case names and stripped values, in order.
        length: The body's, in bytes; None if it is chunked, or only its end will tell.
        keep_alive: Whether another request may follow on the connection.
        expects_continue: Whether the client awaits ``100 Continue`` before the body.
        usual: Whether any path may follow the method without a second look.

    Attributes:
        request_id: The id that the client or a proxy gave; None without a valid one.
        rare: Whether it has fields that few requests have: a position, an Idempotency-Key.
        senders: The addresses at which access found ``Host`` and ``Origin`` right. Never an admission.
        accepted: The media types that it was found to accept.
        promises_json: Whether a body after it was found to be JSON, and not too long.
    """

    __slots__ = (
        *("accepted", "expects_continue", "fields", "keep_alive", "length", "method"),
        *("promises_json", "rare", "request_id", "senders", "usual", "version"),
    )

    def __init__(
        self,
        method: str,
        version: str,
        fields: Fields,
        *,
        length: int | None = None,
        keep_alive: bool = True,
        expects_continue: bool = False,
        usual: bool = False,
    ) -> None:
        self.method = method
        self.version = version
        self.fields = fields
        self.length = length
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.usual = usual
        ids = fields.values("x-request-id")
        self.request_id = ids[0] if len(ids) == 1 and _ID.fullmatch(ids[0]) else None
        self.rare = not _RARE.isdisjoint(fields.by_name)
        self.senders: set[Address] = set()
        self.accepted: set[tuple[str, ...]] = set()
        self.promises_json = False

    def __repr__(self) -> str:
        return f"<Profile {self.method} fields={len(self.fields)} length={self.length}>"


class Head(Struct, frozen=True):
    """The head of a request.

    Attributes:
        profile: All but the target.
        path: Percent-encoded, from its first slash; ``*`` for the whole server.
        query: Without its question mark.
    """

    profile: Profile
    path: bytes = b""
    query: bytes = b""


NO_HEAD: Final = Head(Profile("", "", Fields()))
"""Stands for one that is malformed: such a request can only be refused."""
