"""Conversations over httpx, for both clients."""

from typing import Final

import httpx

from purgatory_async.client._events import SILENCE
from purgatory_async.client._talk import Lost, Policy, Request, Response

__all__ = [
    "LIMITS",
    "TRANSPORT_ERRORS",
    "as_response",
    "base_url_of",
    "headers_for",
    "lost_by",
    "stream_timeout",
    "timeout_for",
    "unix_socket_of",
]

LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100)
"""Each pending wait has a connection; the pool must not limit them."""
TRANSPORT_ERRORS: Final = (httpx.TransportError, httpx.DecodingError)
"""No answer came, or an unreadable one."""
_UNIX: Final = "unix://"


def unix_socket_of(address: str) -> str | None:
    """Return the path of the Unix socket that an address names; None for another address."""
    path = address.removeprefix(_UNIX)
    return path if path != address and path.startswith("/") else None


def base_url_of(address: str) -> str:
    """Return the URL before the path of every request.

    Raises:
        ValueError: The address is malformed, or has a user or password, which the message does not repeat.
    """
    if unix_socket_of(address) is not None:
        return "http://localhost"
    like = "address must be like http://127.0.0.1:8765"
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise ValueError(f"{like}, got {address!r}: {error}") from None
    if url.userinfo:
        raise ValueError("address must have no user or password in it; give a token instead")
    usable = url.scheme in {"http", "https"} and url.host and (url.port or 0) < 2**16
    if not usable or url.query or url.fragment:
        raise ValueError(f"{like}, with a prefix or none, or unix:///run/purgatory.sock, got {address!r}")
    return address


def headers_for(token: str | None) -> dict[str, str]:
    """Return the headers of every request.

    Raises:
        TypeError, ValueError: The token does not fit into a header.
    """
    headers = {"Accept": "application/json, application/problem+json"}
    if token is not None:
        if not isinstance(token, str):
            raise TypeError(f"token must be a string or None, got {type(token).__name__}")
        if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise ValueError(
                f"token must be printable ASCII without spaces around it, got {len(token)} characters"
            )
        headers["Authorization"] = f"Bearer {token}"
    return headers


def timeout_for(request: Request, policy: Policy) -> httpx.Timeout:
    """Limit each part of a request: the answer to its hold plus slack, the others to slack."""
    return httpx.Timeout(policy.slack, read=request.held + policy.slack)


def stream_timeout(policy: Policy) -> httpx.Timeout:
    """Limit the silence of the event stream."""
    return httpx.Timeout(policy.slack, read=SILENCE)


def as_response(response: httpx.Response) -> Response:
    """Convert an answer for conversations."""
    return Response(
        response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content
    )


def lost_by(error: httpx.TransportError | httpx.DecodingError) -> Lost:
    """Return whether the service may have carried out an unanswered request."""
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return Lost(str(error) or type(error).__name__, sent=not never_sent)
