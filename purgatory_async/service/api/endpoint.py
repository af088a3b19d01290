"""Endpoints, each an async function from the service and a request to a reply, and the search for one by path."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from msgspec import Struct

from purgatory_async.service.access.grants import Permission
from purgatory_async.service.api.request import Request
from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.contract.problems import Kind
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.asgi import Scope, Send

# The text of a segment, and the name of the parameter that stands for any text instead.
_Segment = tuple[bytes, str | None]


class Reply(Protocol):
    """A complete answer, or a stream."""

    @property
    def status(self) -> int:
        """The status of the answer."""
        ...

    @property
    def sent(self) -> int:
        """The bytes of the body; for a stream, so far."""
        ...

    async def send_to(self, send: Send, *, head_only: bool = False, stamp: Sequence[Field] = ()) -> None:
        """Send it, with further fields; ``head_only`` omits the body, as for HEAD."""


Answers = type[Struct] | tuple[type[Struct], ...] | str | None
"""What a status is answered with: a struct or one of several, a media type, or None for no body."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path, described for `openapi`.

    Attributes:
        serve: Answers, or raises a `Problem`. Its docstring after the path is the summary.
        permission: The scope a token needs; None if the path is open.
        answers: By status; of several structs clients take the first that fits.
        query: Its query parameters.
        repeated: Query parameters that may repeat.
        headers: The request headers that it reads.
        body: The struct of the body, or one of several; None if it takes none.
        needs_body: Whether the body is required.
        problems: Its own, besides the problems of every request of its kind.
        own: A scope that does in place of the other, for what the token's owner made.
        adds_up: Whether a repeated request changes more, so that an Idempotency-Key is refused.
        probed: Whether HTTP/1.0 may ask for it without ``Host``.
    """

    serve: Callable[[HttpService, Request], Awaitable[Reply]]
    permission: Permission | None
    answers: Mapping[int, Answers]
    query: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    body: type[Struct] | tuple[type[Struct], ...] | None = None
    needs_body: bool = False
    problems: tuple[Kind, ...] = ()
    own: Permission | None = None
    adds_up: bool = False
    probed: bool = False


Match = tuple[str, Mapping[str, Endpoint], dict[str, bytes]]
"""The pattern of a route, its endpoints by method, and the parameters of the path, still percent-encoded."""


class Routes:
    """Finds the endpoints of a path.

    Splits the raw path before decoding its segments, so ``%2F`` stays part of a key.

    Args:
        table: By pattern, such as ``/v1/operations/{id}``; a segment in braces matches any segment.

    Example:
        >>> routes = Routes({"/v1/keys/{key}": {}})
        >>> routes.match(b"/v1/keys/a%2Fb")
        ('/v1/keys/{key}', {}, {'key': b'a%2Fb'})
        >>> routes.match(b"/v1/keys") is None
        True
    """

    def __init__(self, table: Mapping[str, Mapping[str, Endpoint]]) -> None:
        self._by_length: dict[int, list[tuple[str, list[_Segment], Mapping[str, Endpoint]]]] = {}
        for pattern, methods in table.items():
            parts = [_segment(part) for part in pattern.split("/")]
            self._by_length.setdefault(len(parts), []).append((pattern, parts, methods))

    def match(self, path: bytes) -> Match | None:
        """Find the route of a path. O(routes with as many segments).

        Args:
            path: Percent-encoded, without the mount prefix.

        Returns:
            The route; None if none matches.
        """
        segments = path.split(b"/")
        for pattern, parts, methods in self._by_length.get(len(segments), ()):
            parameters = _fit(parts, segments)
            if parameters is not None:
                return pattern, methods, parameters
        return None


def _segment(part: str) -> _Segment:
    return (b"", part[1:-1]) if part.startswith("{") else (part.encode(), None)


def _fit(pattern: Sequence[_Segment], segments: Sequence[bytes]) -> dict[str, bytes] | None:
    parameters: dict[str, bytes] = {}
    for (wanted, name), given in zip(pattern, segments, strict=True):
        if name is not None:
            parameters[name] = given
        elif wanted != given:
            return None
    return parameters


def raw_path(scope: Scope, base: bytes = b"") -> bytes:
    """Return the percent-encoded path below the mount point (``root_path``) and the base path, with its leading slash.

    Either may be missing from the path: a proxy or an ASGI server may have removed it.
    """
    # ASGI servers may omit raw_path; then %2F is lost.
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    root = scope.get("root_path", "")
    return _below(_below(raw, quote(root).encode()) if root else raw, base)


def _below(path: bytes, prefix: bytes) -> bytes:
    below = path.removeprefix(prefix)
    return below or b"/" if below.startswith(b"/") or not below else path
