"""Conversations over httpx2, for both clients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx2

from purgatory_async.client._events import SILENCE
from purgatory_async.client._model import RequestRefused, ServiceUnreachable
from purgatory_async.client._talk import Lost, Policy, Request, Response
from purgatory_async.errors import check_callback

LIMITS: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
"""Each pending wait has a connection; the pool must not limit them."""
TRANSPORT_ERRORS: Final = (httpx2.TransportError, httpx2.DecodingError)
"""No answer came, or an unreadable one."""
_UNIX: Final = "unix://"

B = TypeVar("B")


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
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{like}, got {address!r}: {error}") from None
    if url.userinfo:
        raise ValueError(f"address must have no user or password before {url.host}; give a token instead")
    usable = url.scheme in {"http", "https"} and url.host and (url.port or 0) < 2**16
    if not usable or url.query or url.fragment:
        raise ValueError(f"{like}, with a prefix or none, or unix:///run/purgatory.sock, got {address!r}")
    return address


def proxy_of(address: str) -> str | None:
    """Return the URL of the proxy that the environment names for an address; None asks the service itself.

    A Unix socket and an address of this machine have none, whatever the environment says.

    Raises:
        ValueError: The address or the proxy's is malformed; the message does not repeat the latter, which may have a
            password.
    """
    url = httpx2.URL(base_url_of(address))
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy is None or _is_here(url.host) or proxy_bypass(_place(url)):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        httpx2.Proxy(proxy)
    except (httpx2.InvalidURL, ValueError):
        raise ValueError(
            f"{url.scheme}_proxy must be like http://proxy:3128; correct it, or unset it"
        ) from None
    return proxy


def transport_for(
    address: str, given: B | None, kind: type[B], make: Callable[..., B]
) -> tuple[B | None, str | None]:
    """Return what carries requests to an address, and the proxy through which it does; None leaves either to httpx2.

    Args:
        address: The address of the service.
        given: The user's transport, which is asked itself; None for none.
        kind: What that must be.
        make: Makes one, given ``uds`` and ``limits``.

    Raises:
        TypeError: The user's is of another kind, such as one of httpx.
        ValueError: As `proxy_of`.
    """
    if given is not None:
        if not isinstance(given, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
            own = f"{type(given).__module__}.{type(given).__qualname__}"
            raise TypeError(
                f"transport must be an httpx2.{kind.__name__}, got {own}; one of httpx does not fit"
            )
        return given, None
    proxy = proxy_of(address)
    # Without a transport or a proxy httpx2 would ask a proxy of the environment.
    return (None, proxy) if proxy is not None else (make(uds=unix_socket_of(address), limits=LIMITS), None)


def _is_here(host: str) -> bool:
    """Whether a host can only be this machine: ``localhost`` (RFC 6761), a loopback or the unspecified address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified


def _place(url: httpx2.URL) -> str:
    return url.host if url.port is None else f"{url.host}:{url.port}"


@contextmanager
def naming(proxy: str | None) -> Iterator[None]:
    """Name the proxy, without its password, in errors that may be its own."""
    try:
        yield
    except (ServiceUnreachable, RequestRefused) as error:
        if proxy is not None and not (isinstance(error, RequestRefused) and error.slug):
            url = httpx2.URL(proxy)
            hint = f"asked through the proxy {url.scheme}://{_place(url)} of the environment"
            error.args = (f"{error}; {hint} (NO_PROXY=HOST asks directly)",)
        raise


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


def hooks_of(
    headers: Callable[[], Mapping[str, str]] | None, add: Callable[..., object]
) -> dict[str, list[Callable[..., object]]]:
    """Return httpx2's hooks that add the headers of the moment to each request.

    Raises:
        TypeError: ``headers`` is no plain function.
    """
    if isinstance(headers, Mapping):
        raise TypeError(f"headers must be a function that returns them, got {headers!r}; pass it uncalled")
    if headers is None:
        return {}
    check_callback("headers", headers)
    return {"request": [partial(add, headers)]}


def add_headers(headers: Callable[[], Mapping[str, str]], request: httpx2.Request) -> None:
    """Let a request have the headers of the moment, too."""
    request.headers.update(headers())


def timeout_for(request: Request, policy: Policy) -> httpx2.Timeout:
    """Limit each part of a request: the answer to its hold plus slack, the others to slack."""
    return httpx2.Timeout(policy.slack, read=request.held + policy.slack)


def stream_timeout(policy: Policy) -> httpx2.Timeout:
    """Limit the silence of the event stream."""
    return httpx2.Timeout(policy.slack, read=SILENCE)


def as_response(response: httpx2.Response) -> Response:
    """Convert an answer for conversations."""
    return Response(
        response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content
    )


def lost_by(error: httpx2.TransportError | httpx2.DecodingError) -> Lost:
    """Return whether the service may have carried out an unanswered request."""
    never_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return Lost(str(error) or type(error).__name__, sent=not never_sent)
