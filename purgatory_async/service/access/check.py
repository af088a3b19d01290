"""Access control: the token and its scopes, the host that a request names, and the origin of its page.

Every request passes these checks first, in this order:

1. The token, unless the path is open. 401 comes before any other fault, so strangers learn nothing else.
2. ``Host``, on open paths too. A browser treats a page that rebinds its name to our address (DNS rebinding) as same
   origin; only ``Host`` reveals it. Without tokens this check matters most. A probe of HTTP/1.0 may have none.
3. ``Origin`` and ``Sec-Fetch-Site``, where the request may change something: browsers let any page send requests to
   any address. No answer has a CORS header, so a page of another origin cannot read it. The page
   of a link is of the public URL, which a proxy may serve under another name than ``Host``.
4. The token's scope, which depends on what is asked for.

A request that is let in has an `Admission`, which is looked at again when the tokens change.
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from purgatory_async.durable.grants import Grant, Permission
from purgatory_async.durable.links.hosts import (
    Authority,
    Origin,
    canonical_address,
    canonical_host,
    parse_authority,
    parse_origin,
)
from purgatory_async.service.access.admission import Admission
from purgatory_async.service.access.tokens import TOKEN, Tokens, read_tokens
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.header_fields import Address, Fields, Profile
from purgatory_async.service.settings.settings import Settings

# Every other method may change something, unknown ones included.
_HARMLESS: Final = frozenset({"GET", "HEAD"})
_BEARER: Final = re.compile(rb"bearer +(" + TOKEN + rb")", re.IGNORECASE)
# Sec-Fetch-Site of requests from the service's own page, and of addresses that the user typed.
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})


class Demand(Protocol):
    """What a request must show to be let in."""

    @property
    def permission(self) -> Permission | None:
        """The scope that a token needs; None if no token is needed."""
        ...

    @property
    def own(self) -> Permission | None:
        """A scope that is enough for what the token's owner made; None for none."""
        ...

    @property
    def answering(self) -> Permission | None:
        """A further scope that is enough; None for none."""
        ...

    @property
    def probed(self) -> bool:
        """Whether HTTP/1.0 may come without ``Host``."""
        ...

    @property
    def public(self) -> bool:
        """Whether pages of the public URL may change something by it, and no others."""
        ...


class Access:
    """Accepts or refuses requests by the tokens and hosts of the settings.

    Raises:
        SettingsError: The tokens file is unusable.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.tokens
        public = settings.public_url
        self._public: Final = None if public is None else public.origin
        hosts = () if public is None else (public.origin.host,)
        self._hosts = frozenset({canonical_host(settings.host), *settings.allow_host, *hosts})
        self._tokens: Tokens | None = None
        self._present: Final[dict[Admission, None]] = {}
        self.reload()

    def __repr__(self) -> str:
        return f"<Access tokens={self._tokens!r} hosts={sorted(filter(None, self._hosts))}>"

    def reload(self) -> None:
        """Read the tokens file again, and end the held requests that it no longer allows. O(requests).

        Raises:
            SettingsError: The file is unusable; the old tokens stay valid.
        """
        if self._path is None:
            return
        tokens = self._tokens = read_tokens(self._path)
        for admission in list(self._present):
            admission.look_again(tokens.find(admission.grant.digest))

    def enter(self, admission: Admission) -> None:
        """Note a request that was let in, to look at it again when the tokens change. O(1)."""
        self._present[admission] = None

    def leave(self, admission: Admission) -> None:
        """Forget a request that was answered. O(1)."""
        del self._present[admission]

    def check(self, profile: Profile, address: Address, methods: Mapping[str, Demand]) -> Admission | None:
        """Check a request without reading its body.

        Args:
            profile: Its head, but for the target.
            address: Which the connection reached; None if it is not known.
            methods: What each method of its path asks for.

        Returns:
            What its token allows; None without tokens, and on an open path.

        Raises:
            Problem: ``unauthorized``, ``bad-header``, ``misdirected``, ``cross-origin`` or ``forbidden``.
        """
        grant, demand = None, methods.get(profile.method)
        if self._tokens is not None and not _is_open(methods, demand):
            grant = _grant(self._tokens, profile.fields)
        if demand is not None and demand.public:
            self._own_host(profile.fields, address)
            _check_origin(profile.fields, self._public)
        # What a head says of its sender is the same for all requests that repeat it.
        elif address not in profile.senders and not _is_bare_probe(profile, methods):
            host = self._own_host(profile.fields, address)
            if profile.method not in _HARMLESS:
                _check_origin(profile.fields, host)
            profile.senders.add(address)
        if grant is None:
            return None
        return Admission(grant, None if demand is None else _right(grant, demand))

    def _own_host(self, fields: Fields, address: Address) -> Authority:
        """Check that ``Host`` names this service; return it."""
        given = fields.values("host")
        if len(given) != 1:
            found = b", ".join(given).decode("latin-1")
            raise http_problems.bad_header("Host", "given exactly once", found)
        host = parse_authority(given[0].strip(b" \t"))
        if host is None or not (
            host.loopback or host.host in self._hosts or _is_bound_address(host, address)
        ):
            raise http_problems.misdirected(given[0].decode("latin-1"))
        return host


def _right(grant: Grant, demand: Demand) -> Permission | None:
    """Return the scope that lets a request in."""
    needed = demand.permission
    if needed is None or needed in grant.scopes:
        return needed
    others = [scope for scope in (demand.own, demand.answering) if scope is not None]
    for scope in others:
        if scope in grant.scopes:
            return scope
    raise http_problems.forbidden(needed, *others)


def _grant(tokens: Tokens, fields: Fields) -> Grant:
    """Return what the request's token may do."""
    given = fields.values("authorization")
    if len(given) != 1:
        raise http_problems.unauthorized(
            "the request has no token" if not given else "the request has more than one token"
        )
    bearer = _BEARER.fullmatch(given[0].strip(b" \t"))
    if bearer is None:
        raise http_problems.unauthorized("Authorization has no Bearer token")
    grant = tokens.grant_of(bearer[1])
    if grant is None:
        raise http_problems.unauthorized("the token is unknown")
    return grant


def _is_open(methods: Mapping[str, Demand], demand: Demand | None) -> bool:
    """Whether a method of a path needs no token; an unknown one needs none if no other does."""
    if demand is not None:
        return demand.permission is None
    return bool(methods) and all(known.permission is None for known in methods.values())


def _is_bare_probe(profile: Profile, methods: Mapping[str, Demand]) -> bool:
    """Whether a request of HTTP/1.0 without ``Host`` is a load balancer's, which no browser sends."""
    if profile.version != "1.0" or profile.fields.values("host"):
        return False
    return bool(methods) and all(known.probed for known in methods.values())


def _is_bound_address(host: Authority, address: Address) -> bool:
    """Whether a host is the address that the connection reached."""
    # Never a name: some ASGI servers copy it from the Host header.
    return address is not None and host.host == canonical_address(address[0].partition("%")[0])


def _check_origin(fields: Fields, own: Authority | Origin | None) -> None:
    """Refuse requests from pages of another origin; only browsers send these headers."""
    for site in fields.values("sec-fetch-site"):
        if site.strip(b" \t") not in _OWN_SITES:
            raise http_problems.cross_origin("Sec-Fetch-Site", site.decode("latin-1"))
    origins = fields.values("origin")
    if origins:
        page = parse_origin(origins[0].strip(b" \t")) if len(origins) == 1 else None
        if page is None or not (page.is_of(own) if isinstance(own, Authority) else page == own):
            raise http_problems.cross_origin("Origin", b", ".join(origins).decode("latin-1"))
