"""The tokens file: which tokens may call the service, with which scopes.

A line is ``token scope[,scope]``; empty lines and comments from ``#`` on are ignored. One mistake refuses the whole
file. The error names the file and line but quotes neither, because a misplaced token would end up in a log.
"""

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from purgatory_async.service.api.endpoint import Permission
from purgatory_async.service.settings import SettingsError

__all__ = ["MAX_TOKENS", "MIN_TOKEN", "TOKEN", "Tokens", "parse_tokens", "read_tokens"]

# 12 random bytes in base64: 96 bits cannot be guessed over a network. It also keeps words out.
MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 1024  # some proxies refuse longer headers
MAX_TOKENS: Final = 256  # each request is compared with every token
MAX_FILE: Final = 1 << 20

TOKEN: Final = rb"[A-Za-z0-9._~+/-]+=*"  # b64token of RFC 6750
_TOKEN: Final = re.compile(TOKEN)
_COMMENT: Final = re.compile(rb"(?:^|[ \t])#.*")
_SPACE: Final = re.compile(rb"[ \t]+")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Tokens:
    """Known tokens and their scopes.

    Args:
        scopes: By token; `Permission.ADMIN` includes all others.
    """

    def __init__(self, scopes: Mapping[bytes, frozenset[Permission]]) -> None:
        # Digests have one length, so the time of a comparison reveals nothing about the tokens.
        self._scopes = tuple(
            (_digest(token), frozenset(Permission) if Permission.ADMIN in allowed else allowed)
            for token, allowed in scopes.items()
        )

    def __repr__(self) -> str:
        return f"<Tokens {len(self._scopes)}>"

    def scopes_of(self, token: bytes) -> frozenset[Permission] | None:
        """Return a token's scopes, None if it is unknown. O(tokens), even when the first matches."""
        digest, found = _digest(token), None
        for known, scopes in self._scopes:
            if hmac.compare_digest(known, digest):
                found = scopes
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def read_tokens(path: Path) -> Tokens:
    """Read a tokens file.

    As ssh does with private keys, refuses the process's own file if group or others have any access. A file of
    another user passes: secrets mounted into a container belong to root.

    Raises:
        SettingsError: The file is unreadable, open to others, or has a mistake.
    """
    try:
        with open(path, "rb", opener=_opened) as file:  # Path.open takes no opener
            _check_status(path, os.fstat(file.fileno()))
            text = file.read(MAX_FILE + 1)
    except OSError as error:
        raise SettingsError(f"tokens: cannot read {path}: {error.strerror}") from None
    if len(text) > MAX_FILE:
        raise SettingsError(f"tokens: {path} must have at most {MAX_FILE} bytes, got more")
    return parse_tokens(text, str(path))


def _opened(path: str, flags: int) -> int:
    # Opening a pipe without a writer would block for ever; a regular file ignores the flag.
    return os.open(path, flags | os.O_NONBLOCK)


def _check_status(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SettingsError(f"tokens: {path} must be a regular file, got {stat.filemode(status.st_mode)}")
    if status.st_uid == os.getuid() and status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise SettingsError(f"tokens: {path} is open to other users (mode {mode:04o}): chmod 600 it")


def parse_tokens(text: bytes, name: str) -> Tokens:
    r"""Parse the text of a tokens file; errors name the file.

    Raises:
        SettingsError: A line has a mistake, a token is repeated, or the file has none.

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
            raise SettingsError(f"tokens: {name} line {number}: repeats the token of line {lines[token]}")
        scopes[token], lines[token] = allowed, number
    if not 1 <= len(scopes) <= MAX_TOKENS:
        raise SettingsError(f"tokens: {name} must have 1 to {MAX_TOKENS} tokens, got {len(scopes)}")
    return Tokens(scopes)


def _read_line(content: bytes) -> tuple[bytes, frozenset[Permission]]:
    fields = _SPACE.split(content)
    if len(fields) != 2:  # noqa: PLR2004 - a token and its scopes
        raise ValueError(
            f"must be a token, a space, and scopes joined by commas without spaces, got {len(fields)} words"
        )
    token, scopes = fields
    if _TOKEN.fullmatch(token) is None:
        raise ValueError("the token must have only A-Z a-z 0-9 - . _ ~ + / and a trailing =")
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        raise ValueError(f"the token must have {MIN_TOKEN} to {MAX_TOKEN} characters, got {len(token)}")
    try:
        return token, frozenset(Permission(scope.decode()) for scope in scopes.split(b","))
    except ValueError:
        raise ValueError(f"each scope must be one of {', '.join(Permission)}") from None
