"""Endpoints, each a function from the service and a request to what answers it, and the search for one by path.

An endpoint gives an `Answer`; or `HELD`, if something will go on with the request; or a coroutine, which gives one of
these in a task. It may be called twice: first when the head is there, then with the body. So what it does before it
reads the body changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from msgspec import Struct

from purgatory_async.durable.documents.problems import Problem, ProblemKind
from purgatory_async.durable.grants import Permission
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.records import Headers

# Clients ask for the same paths again: how many are remembered, and how long each may be.
REMEMBERED: Final = 1024
REMEMBERED_BYTES: Final = 128

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
        answering: A scope that does in place of the other, for what a token may answer.
        adds_up: Whether a repeated request changes more, so that an Idempotency-Key is refused.
        probed: Whether HTTP/1.0 may ask for it without ``Host``.
        public: Whether pages of the public URL may change something by it, and no others.
        refused: Shows a problem; None for its document.
    """

    serve: Callable[[HttpService, Request], Given]
    permission: Permission | None
    answers: Mapping[int, Answers]
    query: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    body: type[Struct] | tuple[type[Struct], ...] | None = None
    needs_body: bool = False
    problems: tuple[ProblemKind, ...] = ()
    own: Permission | None = None
    answering: Permission | None = None
    adds_up: bool = False
    probed: bool = False
    public: bool = False
    refused: Callable[[HttpService, Request, Problem, Headers], Answer] | None = None


Match = tuple[str, Mapping[str, Endpoint], bool, Mapping[str, bytes]]
"""The pattern of a route, its endpoints by method, whether clients that take no answers are refused there, and the
parameters of the path, still percent-encoded."""


class _Node:
    """A place in the tree of segments."""

    __slots__ = ("by_text", "name", "other", "route")

    def __init__(self) -> None:
        self.by_text: dict[bytes, _Node] = {}
        self.other: _Node | None = None  # for any other text
        self.name = ""  # of the parameter that such a text is
        self.route: tuple[str, Mapping[str, Endpoint], bool] | None = None


class Routes:
    """Finds the endpoints of a path.

    Splits the raw path before decoding its segments, so ``%2F`` stays part of a key.

    Args:
        table: By pattern, such as ``/v1/operations/{id}``; a segment in braces matches any segment.

    Example:
        >>> routes = Routes({"/v1/keys/{key}": {}})
        >>> routes.match(b"/v1/keys/a%2Fb")
        ('/v1/keys/{key}', {}, True, {'key': b'a%2Fb'})
        >>> routes.match(b"/v1/keys") is None
        True
    """

    def __init__(self, table: Mapping[str, Mapping[str, Endpoint]]) -> None:
        self._root: Final = _Node()
        self._remembered: Final = lru_cache(maxsize=REMEMBERED)(self._find)
        for pattern, methods in table.items():
            node = self._root
            for part in pattern.split("/"):
                if part.startswith("{"):
                    node.name = part[1:-1]
                    node.other = node.other or _Node()
                    node = node.other
                else:
                    node = node.by_text.setdefault(part.encode(), _Node())
            node.route = pattern, methods, pattern.startswith("/v1/") and not pattern.startswith("/v1/admin/")

    def match(self, path: bytes) -> Match | None:
        """Find the route of a path. O(segments), unless parameters have the texts of other routes.

        Args:
            path: Percent-encoded, without the mount prefix.

        Returns:
            The route, not to be changed; None if none matches. A text goes before a parameter.
        """
        return self._remembered(path) if len(path) <= REMEMBERED_BYTES else self._find(path)

    def _find(self, path: bytes) -> Match | None:
        segments = path.split(b"/")
        node, parameters = self._root, dict[str, bytes]()
        for segment in segments:
            below = node.by_text.get(segment)
            if below is None:
                below = node.other
                if below is None:
                    break
                parameters[node.name] = segment
            node = below
        else:
            if node.route is not None:
                return (*node.route, parameters)
        # A text may have led astray, where a parameter would have led on.
        return _match(self._root, segments, 0, {})


def _match(
    node: _Node, segments: Sequence[bytes], depth: int, parameters: Mapping[str, bytes]
) -> Match | None:
    if depth == len(segments):
        return None if node.route is None else (*node.route, parameters)
    segment = segments[depth]
    below = node.by_text.get(segment)
    if below is not None and (found := _match(below, segments, depth + 1, parameters)) is not None:
        return found
    if node.other is None:
        return None
    return _match(node.other, segments, depth + 1, {**parameters, node.name: segment})
