"""Hosts as HTTP writes them, read so that one host has one spelling.

What cannot be read here is no host at all: user information, white space, a zone, digits in another base, letters
outside ASCII. Browsers send none of these, so nobody is refused who was led here by a link.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from typing import Final

__all__ = [
    "Authority",
    "Origin",
    "canonical_address",
    "canonical_host",
    "is_loopback",
    "parse_authority",
    "parse_origin",
]

MAX_AUTHORITY: Final = 260  # a name of 253 characters and its last dot, a colon and five digits
_REMEMBERED: Final = 256  # a client meets the same few hosts; a hostile one must not fill the memory

_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_NAME: Final = re.compile(rf"(?=.{{1,254}}\Z){_LABEL}(?:\.{_LABEL})*\.?")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_MAX_PORT: Final = 65_535
_ORIGIN: Final = re.compile(rb"(https?)://(.+)", re.IGNORECASE | re.DOTALL)
_PORTS: Final = {b"http": 80, b"https": 443}


@dataclass(frozen=True, slots=True)
class Authority:
    """The host and port that a request was sent to.

    Attributes:
        host: In its one spelling; see `canonical_host`.
        port: None if it was left out.
        loopback: Whether only this machine can be meant by the host.
    """

    host: str
    port: int | None
    loopback: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """The page that a request was sent from.

    Attributes:
        host: In its one spelling.
        port: The one it was loaded from.
        usual_port: The one that its scheme means where none is given.
    """

    host: str
    port: int
    usual_port: int

    def is_of(self, own: Authority) -> bool:
        """Tell whether the page was loaded from where its request goes; the scheme is not compared.

        A proxy that speaks TLS for us leaves us nothing to compare it with.

        Args:
            own: From the ``Host`` of the request.

        Returns:
            True if host and port are the same. O(1).
        """
        return self.host == own.host and self.port == (self.usual_port if own.port is None else own.port)


def canonical_host(text: str) -> str | None:
    """Spell a host as it is compared: lower case, no last dot, addresses as their standard form.

    Args:
        text: A name, an IPv4 address, or an IPv6 address in brackets or without.

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
    """Spell an IP address as it is compared; one of IPv4 that IPv6 carries is that of IPv4.

    Args:
        text: An IPv4 or IPv6 address, without brackets.

    Returns:
        Its standard form; None if the text is no address. O(length).
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return str(address)
    # A zone means something on one machine only, and is never sent.
    return None if address.scope_id is not None else str(address.ipv4_mapped or address)


def is_loopback(host: str) -> bool:
    """Tell whether a host, in its one spelling, can be nothing but this machine.

    Args:
        host: From `canonical_host`.

    Returns:
        True for ``localhost`` (RFC 6761) and loopback addresses.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_authority(raw: bytes) -> Authority | None:
    """Read a host with or without a port, as ``Host`` and the end of an ``Origin`` have it.

    Args:
        raw: As it was sent.

    Returns:
        Host and port; None if the bytes are no such thing. O(length) once, O(1) while they are remembered.

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
    """Read an ``Origin``.

    Args:
        raw: As it was sent.

    Returns:
        The page's host and port; None for ``null``, for what no page over HTTP has, and for what is none.
        O(length) once, O(1) while it is remembered.

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
