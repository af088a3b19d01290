"""The tokens file: which tokens may call the service, for what, and how much.

A line is a token, its scopes, and options: ``TOKEN scope[,scope] [name=NAME] [prefix=TEXT]... [max-pending=N]
[max-bytes=SIZE] [rate=N/s|N/m|N/h|N/d]``. Empty lines and comments from ``#`` on are ignored. One mistake refuses the
whole file. The error names the file and line but quotes neither, because a misplaced token would end up in a log.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from purgatory_async.durable.documents.byte_order import bom_fault
from purgatory_async.durable.documents.names import MAX_KEY_BYTES, checked_key
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.durable.grants import PERIODS, Grant, OwnerLimits, Permission, Rate, short_name
from purgatory_async.durable.private_file import read_private
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.settings.settings import SettingsError
from purgatory_async.service.settings.sizes import parse_size

# 12 random bytes in base64: 96 bits cannot be guessed over a network. It also keeps words out.
MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 1024  # some proxies refuse longer headers
MAX_TOKENS: Final = 256  # each request is compared with every token
MAX_PREFIXES: Final = 64
MAX_FILE: Final = 1 << 20

TOKEN: Final = rb"[A-Za-z0-9._~+/-]+=*"  # b64token of RFC 6750
_TOKEN: Final = re.compile(TOKEN)
_COMMENT: Final = re.compile(rb"(?:^|[ \t])#.*")
_SPACE: Final = re.compile(rb"[ \t]+")
_NAME: Final = re.compile(rb"[A-Za-z0-9._~-]{1,64}")
_NUMBER: Final = re.compile(rb"0{0,8}[1-9][0-9]{0,14}")
_RATE: Final = re.compile(rb"([1-9][0-9]{0,5})/([smhd])")


class Tokens:
    """Known tokens and what each may do.

    Args:
        grants: One for each token.
    """

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._grants = tuple(grants)
        self._by_digest = {grant.digest: grant for grant in self._grants}

    def __repr__(self) -> str:
        return f"<Tokens {len(self._grants)}>"

    def grant_of(self, token: bytes) -> Grant | None:
        """Return what a token may do, None if it is unknown. O(tokens), even when the first matches."""
        digest, found = hashlib.sha256(token).digest(), None
        for grant in self._grants:
            # Digests have one length, so the time of a comparison reveals nothing about the tokens.
            if hmac.compare_digest(grant.digest, digest):
                found = grant
        return found

    def find(self, digest: bytes) -> Grant | None:
        """Return what a known token may do, by its digest; None for an unknown one. O(1)."""
        return self._by_digest.get(digest)


def read_tokens(path: Path) -> Tokens:
    """Read a tokens file, as `read_private` does.

    Raises:
        SettingsError: The file is unreadable, open to others, or has a mistake.
    """
    try:
        text = read_private(path, MAX_FILE)
    except ValueError as error:
        raise SettingsError(f"tokens: {error}") from None
    return parse_tokens(text, str(path))


def parse_tokens(text: bytes, name: str) -> Tokens:
    r"""Parse the text of a tokens file; errors name the file.

    Raises:
        SettingsError: A line has a mistake, a token is repeated, or the file has none.

    Example:
        >>> parse_tokens(b"# the build farm\nuWrjLQX8HnQVpD4d signal,read name=builds prefix=builds/", "tokens")
        <Tokens 1>
    """
    if (fault := bom_fault(text)) is not None:
        raise SettingsError(f"tokens: {name} {fault}")
    grants: dict[bytes, Grant] = {}
    lines: dict[bytes, int] = {}
    owners: dict[str | None, tuple[int, bool, OwnerLimits]] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        content = _COMMENT.sub(b"", line).strip(b" \t\r")
        if not content:
            continue
        try:
            grant, named = _read_line(content)
            _check_new(grant, lines)
            _check_owner(grant, named, *owners.setdefault(grant.owner, (number, named, grant.limits)))
        except ValueError as error:
            raise SettingsError(f"tokens: {name} line {number}: {error}") from None
        grants[grant.digest], lines[grant.digest] = grant, number
    if not 1 <= len(grants) <= MAX_TOKENS:
        raise SettingsError(f"tokens: {name} must have 1 to {MAX_TOKENS} tokens, got {len(grants)}")
    return Tokens(grants.values())


def _check_new(grant: Grant, lines: Mapping[bytes, int]) -> None:
    if grant.digest in lines:
        raise ValueError(f"repeats the token of line {lines[grant.digest]}")


def _check_owner(grant: Grant, named: bool, line: int, known_named: bool, limits: OwnerLimits) -> None:
    """Check a line against the first line of its owner."""
    if named != known_named:
        raise ValueError(
            f"line {line} has this owner, too, by a digest of 8 digits: give one of the two a name="
        )
    if grant.limits != limits:
        raise ValueError(f"max-pending=, max-bytes= and rate= must be as in line {line}, which has its name")


def _read_line(content: bytes) -> tuple[Grant, bool]:
    """Return what a token may do, and whether its owner has a name."""
    token, *fields = _SPACE.split(content)
    if not fields:
        raise ValueError("must be a token, a space, and scopes joined by commas without spaces, got 1 word")
    if _TOKEN.fullmatch(token) is None:
        fit = _TOKEN.match(token)  # the character is not shown, nor the rest
        raise ValueError(
            "the token must have only A-Z a-z 0-9 - . _ ~ + / and a trailing =, got another character at "
            f"{1 + (fit.end() if fit else 0)}"
        )
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        raise ValueError(f"the token must have {MIN_TOKEN} to {MAX_TOKEN} characters, got {len(token)}")
    try:
        scopes = frozenset(Permission(scope.decode()) for scope in fields[0].split(b","))
    except ValueError:
        raise ValueError(f"each scope must be one of {', '.join(Permission)}") from None
    options, prefixes = _read_options(fields[1:])
    if Permission.ADMIN in scopes:
        if prefixes:
            raise ValueError(f"prefix= must not stand beside the scope {Permission.ADMIN}, which may do all")
        scopes = frozenset(Permission)
    named = options.pop("name", None)
    owner = named or short_name(token)
    digest = hashlib.sha256(token).digest()
    return Grant(owner, scopes, prefixes, OwnerLimits(**options), digest), named is not None


def _read_options(words: list[bytes]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the options by name, and the prefixes."""
    options: dict[str, Any] = {}
    prefixes: dict[str, None] = {}
    for number, word in enumerate(words, 3):
        name, _, value = word.partition(b"=")
        known = _OPTIONS.get(name)
        if known is None:
            raise ValueError(f"word {number} must be an option: one of {_NAMES}")
        member, grammar, read = known
        try:
            found = read(value)
        except ValueError:
            raise ValueError(f"{name.decode()}= must be {grammar}, got {len(value)} characters") from None
        if member == "prefix":
            prefixes[found] = None
        elif member in options:
            raise ValueError(f"word {number} repeats {name.decode()}=, which only prefix= may be")
        else:
            options[member] = found
    if len(prefixes) > MAX_PREFIXES:
        raise ValueError(f"a token must have at most {MAX_PREFIXES} prefixes, got {len(prefixes)}")
    return options, tuple(prefixes)


def _matched(pattern: "re.Pattern[bytes]", value: bytes) -> "re.Match[bytes]":
    match = pattern.fullmatch(value)
    if match is None:
        raise ValueError(f"the value must follow {pattern.pattern!r}")
    return match


def _name(value: bytes) -> str:
    return _matched(_NAME, value)[0].decode()


def _number(value: bytes) -> int:
    return int(_matched(_NUMBER, value)[0])


def _size(value: bytes) -> int:
    size = parse_size(value.decode("ascii"))
    if not size:
        raise ValueError("a size must be at least 1")
    return size


def _rate(value: bytes) -> Rate:
    match = _matched(_RATE, value)
    return Rate(int(match[1]), PERIODS[match[2].decode()])


def _prefix(value: bytes) -> str:
    try:
        return checked_key(percent_decoded(value))
    except Problem:
        raise ValueError(f"a prefix must follow the rules of a key, got {len(value)} bytes") from None


_OPTIONS: Final[dict[bytes, tuple[str, str, Callable[[bytes], Any]]]] = {
    b"name": ("name", "1 to 64 of A-Z a-z 0-9 - . _ ~", _name),
    b"prefix": (
        "prefix",
        f"1 to {MAX_KEY_BYTES} bytes of UTF-8 without control characters, %XX for any byte",
        _prefix,
    ),
    b"max-pending": ("max_pending", "an integer from 1", _number),
    b"max-bytes": ("max_bytes", "a size from 1, such as 16MiB (B, KiB, MiB, GiB)", _size),
    b"rate": ("rate", "N/s, N/m, N/h or N/d, N from 1 to 999999", _rate),
}
_NAMES: Final = ", ".join(f"{name.decode()}=" for name in _OPTIONS)
