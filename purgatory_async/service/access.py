"""Who may do what: tokens and their scopes, the host that a request is meant for, and the page that sent it.

Three questions are asked of every request before anything else looks at it, and in this order:

1. A token, unless the path is open: 401 before any other fault, so that a stranger learns nothing of the rest.
2. ``Host``: a page whose name was bound to our address (DNS rebinding) is of the same origin to its browser, and
   gives itself away here only. Asked on open paths too, and where no tokens are needed most of all.
3. ``Origin`` and ``Sec-Fetch-Site``, where the request may change something: a browser lets any page send requests
   to any address. No answer carries a CORS header, so what a page of another origin may read it cannot.

Only then does the token's scope count, for it depends on what is served.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.types import Scope

from purgatory_async.service import problems
from purgatory_async.service.endpoint import Endpoint, Permission
from purgatory_async.service.hosts import (
    Authority,
    canonical_address,
    canonical_host,
    parse_authority,
    parse_origin,
)
from purgatory_async.service.settings import Settings
from purgatory_async.service.tokens import TOKEN, Tokens, read_tokens

__all__ = ["Access"]

# Whatever else there is may change something, unknown methods included.
_HARMLESS: Final = frozenset({"GET", "HEAD"})
_BEARER: Final = re.compile(rb"bearer +(" + TOKEN + rb")", re.IGNORECASE)
# What browsers say of a request that the service's own page sent, and of one that the user typed in.
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})

Headers = Iterable[tuple[bytes, bytes]]


class Access:
    """Lets a request pass, or refuses it.

    Args:
        settings: For the tokens, the address listened on and the hosts that are allowed beside it.

    Raises:
        SettingsError: The tokens file cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.tokens
        self._hosts = frozenset({canonical_host(settings.host), *settings.allow_host})
        self._tokens: Tokens | None = None
        self.reload()

    def __repr__(self) -> str:
        return f"<Access tokens={self._tokens!r} hosts={sorted(filter(None, self._hosts))}>"

    def reload(self) -> None:
        """Read the tokens file again; requests that are held already stay held.

        Raises:
            SettingsError: The file cannot be used; the tokens from before stay as they are.
        """
        self._tokens = None if self._path is None else read_tokens(self._path)

    def check(self, scope: Scope, methods: Mapping[str, Endpoint]) -> None:
        """Let a request pass. Its body is not touched.

        Args:
            scope: ASGI's, of an HTTP request.
            methods: What is served at its path, by method; empty if nothing is.

        Raises:
            Problem: ``unauthorized``, ``bad-header``, ``misdirected``, ``cross-origin`` or ``forbidden``.
        """
        method: str = scope["method"]
        headers: Headers = scope["headers"]
        scopes = None
        if self._tokens is not None and not _is_open(methods, method):
            scopes = _scopes(self._tokens, headers)
        host = self._own_host(headers, scope.get("server"))
        if method not in _HARMLESS:
            _check_origin(headers, host)
        needed = methods[method].permission if method in methods else None
        if scopes is not None and needed is not None and needed not in scopes:
            raise problems.forbidden(needed)

    def _own_host(self, headers: Headers, server: tuple[str, int | None] | None) -> Authority:
        """Make sure that the request is meant for us, and return to what host it was sent."""
        given = _values(headers, b"host")
        if len(given) != 1:
            found = b", ".join(given).decode("latin-1")
            raise problems.bad_header("Host", "there exactly once", found)
        host = parse_authority(given[0].strip(b" \t"))
        if host is None or not (host.loopback or host.host in self._hosts or _is_bound_address(host, server)):
            raise problems.misdirected(given[0].decode("latin-1"))
        return host


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    # Lower case is the server's duty by ASGI, and every framework trusts in it.
    return [value for name, value in headers if name == wanted]


def _scopes(tokens: Tokens, headers: Headers) -> frozenset[Permission]:
    """Find what the request's token allows."""
    given = _values(headers, b"authorization")
    if len(given) != 1:
        raise problems.unauthorized("there is no token" if not given else "there is more than one token")
    bearer = _BEARER.fullmatch(given[0].strip(b" \t"))
    if bearer is None:
        raise problems.unauthorized("that is no Bearer token")
    scopes = tokens.scopes_of(bearer[1])
    if scopes is None:
        raise problems.unauthorized("that token is not known")
    return scopes


def _is_open(methods: Mapping[str, Endpoint], method: str) -> bool:
    """Whether a path may be asked for without a token; another method than those served changes nothing."""
    endpoint = methods.get(method)
    if endpoint is not None:
        return endpoint.permission is None
    return bool(methods) and all(known.permission is None for known in methods.values())


def _is_bound_address(host: Authority, server: tuple[str, int | None] | None) -> bool:
    """Whether a host is the address at which the connection arrived."""
    # An address only: a name would be the client's own word, for some servers take it from the Host header.
    return server is not None and host.host == canonical_address(server[0].partition("%")[0])


def _check_origin(headers: Headers, own: Authority) -> None:
    """Make sure that no page but our own sent the request; what is no browser sends neither header."""
    sent = dict(headers)
    if b"sec-fetch-site" in sent:
        for site in _values(headers, b"sec-fetch-site"):
            if site.strip(b" \t") not in _OWN_SITES:
                raise problems.cross_origin("Sec-Fetch-Site", site.decode("latin-1"))
    if b"origin" in sent:
        origins = _values(headers, b"origin")
        page = parse_origin(origins[0].strip(b" \t")) if len(origins) == 1 else None
        if page is None or not page.is_of(own):
            raise problems.cross_origin("Origin", b", ".join(origins).decode("latin-1"))
