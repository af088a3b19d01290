"""The token at the end of a link: which question it opens, what its holder may choose, and the proof that we made it.

It is not encrypted: its holder can read ``by`` and ``via`` in it. The bytes, before they become base64url:

| bytes | what |
|---|---|
| 1 | the version of this layout |
| 4 | of the hash of the secret that signed it |
| 8 | of the hash of the epoch |
| 8 | the position at which its operation was submitted: a later operation with the same id has another one |
| 1 | a bit for each choice that it offers, the lowest for the first |
| 8 | log time at which it expires, in microseconds since 1970; 0 for none |
| 1 + n | how long ``by`` is, and its UTF-8 |
| n | ``via`` in UTF-8 |
| 16 | of the HMAC-SHA-256 of all before |
"""

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

VERSION: Final = 1
MAX_BY_BYTES: Final = 128
SECRET_BYTES: Final = 32  # of a random secret
SEAL_BYTES: Final = 16
MAX_TOKEN: Final = 512  # characters; one with the longest names has less

_HEAD: Final = Struct(">B4s8sQBQB")
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]*")
_LEAST: Final = _HEAD.size + SEAL_BYTES


class Link(NamedTuple):
    """What a link says.

    Attributes:
        log: The log that has the operation, as `log_name` returns it.
        position: The position of the operation's submission.
        choices: The indexes of the choices that it offers, at least one.
        by: Who answers through it; None for no name. At most 128 bytes.
        via: The owner whose token made it; None without tokens.
        expires_us: The log time at which it expires, in microseconds since 1970; None for no time of its own.
    """

    log: bytes
    position: int
    choices: tuple[int, ...]
    by: str | None = None
    via: str | None = None
    expires_us: int | None = None


def log_name(epoch: str) -> bytes:
    """Return how links name the log of an epoch: the first 8 bytes of its hash."""
    return hashlib.sha256(epoch.encode()).digest()[:8]


class _Key:
    """A secret, ready to sign."""

    __slots__ = ("_hmac", "name")

    def __init__(self, secret: bytes) -> None:
        # Two purposes, two hashes: the one in the token says nothing about the one that signs.
        self.name: Final = hashlib.sha256(b"purgatory link name\0" + secret).digest()[:4]
        self._hmac: Final = hmac.new(
            hashlib.sha256(b"purgatory link key\0" + secret).digest(), digestmod="sha256"
        )

    def seal(self, content: bytes) -> bytes:
        """Return the first bytes of the HMAC of some content. O(bytes)."""
        signing = self._hmac.copy()
        signing.update(content)
        return signing.digest()[:SEAL_BYTES]


class Signer:
    """Makes tokens with the first of some secrets, and opens tokens of each.

    Args:
        known: At least one secret.

    Example:
        >>> signer = Signer([b"0123456789abcdef0123456789abcdef"])
        >>> link = Link(log_name("5e2d8c41"), 7, (0, 2), by="ann")
        >>> token = signer.sign(link)
        >>> len(token), signer.open(token.encode()) == link, signer.open(b"another") is None
        (67, True, True)
    """

    def __init__(self, known: Sequence[bytes]) -> None:
        self._keys: Final = tuple(_Key(secret) for secret in known)

    def __repr__(self) -> str:
        return f"<Signer {len(self._keys)}>"

    def sign(self, link: Link) -> str:
        """Return the token of a link. O(its names)."""
        by, via = (link.by or "").encode(), (link.via or "").encode()
        key = self._keys[0]
        content = b"%b%b%b" % (
            _HEAD.pack(
                VERSION,
                key.name,
                link.log,
                link.position,
                sum(1 << choice for choice in link.choices),
                link.expires_us or 0,
                len(by),
            ),
            by,
            via,
        )
        return urlsafe_b64encode(content + key.seal(content)).rstrip(b"=").decode()

    def open(self, token: bytes) -> Link | None:
        """Return what a token says, as it came; None unless one of the secrets signed it.

        O(secrets and characters): the time of a refusal does not tell what was wrong.
        """
        raw = _decoded(token)
        content, seal = raw[:-SEAL_BYTES], raw[-SEAL_BYTES:]
        signed = False
        for key in self._keys:
            signed |= hmac.compare_digest(key.seal(content), seal) and content[1:5] == key.name
        version, _, log, position, bits, expires_us, length = _HEAD.unpack_from(content)
        if not signed or version != VERSION:
            return None
        names = content[_HEAD.size :]
        return Link(
            log,
            position,
            tuple(choice for choice in range(8) if bits >> choice & 1),
            names[:length].decode() or None,
            names[length:].decode() or None,
            expires_us or None,
        )


def random_signer() -> Signer:
    """Make a signer with a secret of its own, which is gone with the process."""
    return Signer([secrets.token_bytes(SECRET_BYTES)])


_WRONG: Final = bytes(_LEAST)  # as long as a real one, and signed with no secret


def _decoded(token: bytes) -> bytes:
    """Return the bytes of a token; of what is none, some that no secret has signed."""
    if len(token) > MAX_TOKEN or _TOKEN.fullmatch(token) is None:
        return _WRONG
    try:
        raw = urlsafe_b64decode(token + b"=" * (-len(token) % 4))
    except ValueError:  # one character more than a multiple of four
        return _WRONG
    # Some characters end in bits that mean nothing: only one of their spellings is the token.
    return raw if len(raw) >= _LEAST and urlsafe_b64encode(raw).rstrip(b"=") == token else _WRONG
