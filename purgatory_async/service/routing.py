"""Finds the endpoint of a path.

The raw path is split before its segments are decoded, so ``%2F`` stays part of a key. A framework that mounts the
service passes the prefix in ``root_path``.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import quote

from starlette.types import Scope

E = TypeVar("E")


class Routes(Generic[E]):
    """Maps path patterns and methods to endpoints.

    Args:
        table: By pattern, such as ``/v1/operations/{id}``; a segment in braces matches any segment.

    Example:
        >>> routes = Routes({"/v1/keys/{key}": {"GET": "read"}})
        >>> routes.match(b"/v1/keys/a%2Fb")
        ({'GET': 'read'}, {'key': b'a%2Fb'})
        >>> routes.match(b"/v1/keys") is None
        True
    """

    def __init__(self, table: Mapping[str, Mapping[str, E]]) -> None:
        self._routes = [(_split(pattern.encode()), methods) for pattern, methods in table.items()]

    def match(self, path: bytes) -> tuple[Mapping[str, E], dict[str, bytes]] | None:
        """Find the route of a path. O(routes).

        Args:
            path: Percent-encoded, without the mount prefix.

        Returns:
            The endpoints by method, and the path's parameters; None if no route matches.
        """
        segments = _split(path)
        for pattern, methods in self._routes:
            if len(pattern) == len(segments):
                parameters = _fit(pattern, segments)
                if parameters is not None:
                    return methods, parameters
        return None


def _split(path: bytes) -> Sequence[bytes]:
    return path.split(b"/")


def _fit(pattern: Sequence[bytes], segments: Sequence[bytes]) -> dict[str, bytes] | None:
    parameters = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith(b"{"):
            parameters[wanted[1:-1].decode()] = given
        elif wanted != given:
            return None
    return parameters


def raw_path(scope: Scope) -> bytes:
    """Return the percent-encoded path below the mount point, with its leading slash."""
    # ASGI servers may omit raw_path; then %2F is lost.
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    root = quote(scope.get("root_path", "")).encode()
    return raw.removeprefix(root) or b"/"
