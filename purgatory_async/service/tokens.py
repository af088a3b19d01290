"""The tokens file: who may call the service, and for what.

One line is ``token scope[,scope]``; empty lines and comments from ``#`` on do not count. A file with a mistake is
refused as a whole, with a sentence that names the file and the line and repeats nothing of it: what stands in the
wrong place may be a token, and the sentence ends up in a log.
"""

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from purgatory_async.service.endpoint import Permission
from purgatory_async.service.settings import SettingsError

__all__ = ["MAX_TOKENS", "MIN_TOKEN", "TOKEN", "Tokens", "parse_tokens", "read_tokens"]

# What base64 makes of 12 random bytes: 96 bits, which nobody guesses over a network. It also keeps words out.
MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 1024  # beyond, a header would not carry it through every proxy
MAX_TOKENS: Final = 256  # each request is compared with every one of them
MAX_FILE: Final = 1 << 20

TOKEN: Final = rb"[A-Za-z0-9._~+/-]+=*"  # b64token of RFC 6750
_TOKEN: Final = re.compile(TOKEN)
_COMMENT: Final = re.compile(rb"(?:^|[ \t])#.*")
_SPACE: Final = re.compile(rb"[ \t]+")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Tokens:
    """The tokens that are known, and what each allows.

    Args:
        scopes: By token; `Permission.ADMIN` stands for all.
    """

    def __init__(self, scopes: Mapping[bytes, frozenset[Permission]]) -> None:
        # Digests are of one length, and what a comparison takes tells nothing about what they were made of.
        self._scopes = tuple(
            (_digest(token), frozenset(Permission) if Permission.ADMIN in allowed else allowed)
            for token, allowed in scopes.items()
        )

    def __repr__(self) -> str:
        return f"<Tokens {len(self._scopes)}>"

    def scopes_of(self, token: bytes) -> frozenset[Permission] | None:
        """Tell what a token allows.

        Args:
            token: As it was sent.

        Returns:
            Its scopes; None if it is not known. O(tokens), also when the first one fits.
        """
        digest, found = _digest(token), None
        for known, scopes in self._scopes:
            if hmac.compare_digest(known, digest):
                found = scopes
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def read_tokens(path: Path) -> Tokens:
    """Read a tokens file.

    As ssh does with a private key, a file of our own user is refused when its group or others may do anything
    with it; a file of another user is that one's business (secrets mounted into a container belong to root).

    Args:
        path: Of the file.

    Returns:
        Its tokens.

    Raises:
        SettingsError: It cannot be read, is open to others, or has a mistake.
    """
    try:
        with open(path, "rb", opener=_opened) as file:  # Path.open takes no opener
            _check_status(path, os.fstat(file.fileno()))
            text = file.read(MAX_FILE + 1)
    except OSError as error:
        raise SettingsError(f"tokens: cannot read {path}: {error.strerror}") from None
    if len(text) > MAX_FILE:
        raise SettingsError(f"tokens: {path} has more than {MAX_FILE} bytes, so it is no tokens file")
    return parse_tokens(text, str(path))


def _opened(path: str, flags: int) -> int:
    # A pipe without a writer would hold the start for ever; a regular file does not know the flag.
    return os.open(path, flags | os.O_NONBLOCK)


def _check_status(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SettingsError(f"tokens: {path} is no regular file ({stat.filemode(status.st_mode)})")
    if status.st_uid == os.getuid() and status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise SettingsError(f"tokens: {path} is open to other users (mode {mode:04o}): chmod 600 it")


def parse_tokens(text: bytes, name: str) -> Tokens:
    r"""Read the lines of a tokens file.

    Args:
        text: All of it.
        name: Of the file, for a refusal.

    Returns:
        The tokens.

    Raises:
        SettingsError: A line has a mistake, a token is there twice, or there is none.

    Example:
        >>> parse_tokens(b"# the build farm\nuWrjLQX8HnQVpD4d signal,read", "tokens")
        <Tokens 1>
    """
    scopes: dict[bytes, frozenset[Permission]] = {}
    lines: dict[bytes, int] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        content = _COMMENT.sub(b"", line).strip(b" \t\r")
        if not content:
            continue
        try:
            token, allowed = _read_line(content)
        except ValueError as error:
            raise SettingsError(f"tokens: {name} line {number}: {error}") from None
        if token in scopes:
            raise SettingsError(f"tokens: {name} line {number}: has the token of line {lines[token]} again")
        scopes[token], lines[token] = allowed, number
    if not 1 <= len(scopes) <= MAX_TOKENS:
        raise SettingsError(f"tokens: {name} must have 1 to {MAX_TOKENS} tokens, got {len(scopes)}")
    return Tokens(scopes)


def _read_line(content: bytes) -> tuple[bytes, frozenset[Permission]]:
    fields = _SPACE.split(content)
    if len(fields) != 2:  # noqa: PLR2004 - a token and its scopes
        raise ValueError(
            f"must be a token, a space, and scopes with commas and no spaces between, got {len(fields)} words"
        )
    token, scopes = fields
    if _TOKEN.fullmatch(token) is None:
        raise ValueError("the token has a character other than A-Z a-z 0-9 - . _ ~ + / and = at its end")
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        raise ValueError(f"the token must have {MIN_TOKEN} to {MAX_TOKEN} characters, got {len(token)}")
    try:
        return token, frozenset(Permission(scope.decode()) for scope in scopes.split(b","))
    except ValueError:
        raise ValueError(f"has an unknown scope; known are {', '.join(Permission)}") from None
