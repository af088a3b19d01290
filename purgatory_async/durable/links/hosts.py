"""Parses hosts as HTTP writes them, into one canonical spelling.

User information, white space, a zone, digits in another base and letters outside ASCII are refused: browsers never
send them.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from typing import Final

MAX_AUTHORITY: Final = 260  # a name of 253 characters and its last dot, a colon and five digits
_REMEMBERED: Final = 256  # clients repeat few hosts; a hostile one must not fill the memory

_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_NAME: Final = re.compile(rf"(?=.{{1,254}}\Z){_LABEL}(?:\.{_LABEL})*\.?")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_MAX_PORT: Final = 65_535
_ORIGIN: Final = re.compile(rb"(https?)://(.+)", re.IGNORECASE | re.DOTALL)
_PORTS: Final = {b"http": 80, b"https": 443}


@dataclass(frozen=True, slots=True)
class Authority:
    """The host and port of a ``Host`` header.

    Attributes:
        host: Canonical; see `canonical_host`.
        port: None if omitted.
        loopback: Whether the host can only be this machine.
    """

    host: str
    port: int | None
    loopback: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of the page that sent a request.

    Attributes:
        host: Canonical.
        port: The port of the page.
        usual_port: The default of its scheme.
    """

    host: str
    port: int
    usual_port: int

    def is_of(self, own: Authority) -> bool:
        """Return whether the page's host and port are as in the request's ``Host``. O(1).

        Ignores the scheme: behind a TLS proxy the service does not know its own.
        """
        return self.host == own.host and self.port == (self.usual_port if own.port is None else own.port)


def canonical_host(text: str) -> str | None:
    """Return a host's canonical spelling: lower case, no last dot, addresses in standard form.

    Args:
        text: A name, an IPv4 address, or an IPv6 address with or without brackets.

    Returns:
        The spelling, without brackets; None if the text is no host. O(length).

    Example:
        >>> canonical_host("LocalHost."), canonical_host("[0:0::1]"), canonical_host("::ffff:10.0.0.1")
        ('localhost', '::1', '10.0.0.1')
        >>> canonical_host("user@localhost") is None
        True
    """
    if text.startswith("[") and text.endswith("]"):
        return canonical_address(text[1:-1]) if ":" in text else None
    address = canonical_address(text)
    if address is None and _NAME.fullmatch(text):
        return text.lower().removesuffix(".")
    return address


def canonical_address(text: str) -> str | None:
    """Return an IP address (without brackets) in standard form, None if it is none. O(length).

    An IPv4 address mapped into IPv6 becomes IPv4.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return str(address)
    # A zone is local to one machine.
    return None if address.scope_id is not None else str(address.ipv4_mapped or address)


def is_loopback(host: str) -> bool:
    """Return whether a canonical host is ``localhost`` (RFC 6761) or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_authority(raw: bytes) -> Authority | None:
    """Parse a host with an optional port; None if it is invalid. O(length), O(1) while cached.

    Example:
        >>> parse_authority(b"[::1]:8765")
        Authority(host='::1', port=8765, loopback=True)
        >>> parse_authority(b"::1") is None
        True
    """
    return _parsed(raw) if len(raw) <= MAX_AUTHORITY else None


@lru_cache(_REMEMBERED)
def _parsed(raw: bytes) -> Authority | None:
    match = _AUTHORITY.fullmatch(raw.decode("latin-1"))
    host = None if match is None else canonical_host(match[1])
    if match is None or host is None:
        return None
    port = int(match[2]) if match[2] else None
    return None if port is not None and port > _MAX_PORT else Authority(host, port, is_loopback(host))


def parse_origin(raw: bytes) -> Origin | None:
    """Parse an ``Origin``; None for ``null``, other schemes and invalid text. O(length), O(1) while cached.

    Example:
        >>> parse_origin(b"https://holds.example.org")
        Origin(host='holds.example.org', port=443, usual_port=443)
        >>> parse_origin(b"null") is None
        True
    """
    return _parsed_origin(raw) if len(raw) <= MAX_AUTHORITY + len("https://") else None


@lru_cache(_REMEMBERED)
def _parsed_origin(raw: bytes) -> Origin | None:
    match = _ORIGIN.fullmatch(raw)
    page = None if match is None else parse_authority(match[2])
    if match is None or page is None:
        return None
    usual = _PORTS[match[1].lower()]
    return Origin(page.host, usual if page.port is None else page.port, usual)
