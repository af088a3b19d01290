"""The rules for watch keys and operation ids on the wire.

A key is text of 1 to 512 bytes in UTF-8, not normalised: two spellings are two keys. ``.`` and ``..`` are refused
because clients and proxies fold them out of paths, control characters because they can corrupt logs and terminals.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterable
from os import urandom
from typing import Final

from purgatory_async.durable.documents import problems

MAX_KEY_BYTES: Final = 512
MAX_KEYS: Final = 64
ID_GRAMMAR: Final = "[A-Za-z0-9._~-]{1,128}"
ID_BYTES: Final = 16  # random ones

_IN_PATHS: Final = bytes.maketrans(b"+/", b"-_")
_PADDING: Final = b"=\n"
_ID: Final = re.compile(ID_GRAMMAR)
# Breaks no rule, however many bytes each character has.
_USUAL: Final = re.compile("(?!\\.\\.?\\Z)[^\0-\x1f\x7f-\x9f\ud800-\udfff]{1,128}").fullmatch
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f]")  # Unicode's category Cc, which never grows


def checked_key(key: str) -> str:
    """Return a decoded key if it is valid.

    Raises:
        Problem: ``bad-key``; the detail names the broken rule.
    """
    if _USUAL(key) is not None:
        return key
    if not key:
        raise problems.bad_key(key, "must not be empty")
    if key in {".", ".."}:
        raise problems.bad_key(key, "must not be a path segment that clients fold")
    # The length in characters first, to avoid encoding a megabyte.
    if len(key) > MAX_KEY_BYTES or len(key.encode()) > MAX_KEY_BYTES:
        raise problems.bad_key(key, f"must have at most {MAX_KEY_BYTES} bytes in UTF-8")
    if _CONTROL.search(key):
        raise problems.bad_key(key, "must not contain control characters")
    return key


def distinct_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct keys in order, each checked.

    Raises:
        Problem: ``bad-key`` or ``too-many-keys``.
    """
    distinct = tuple(dict.fromkeys(keys))
    if len(distinct) > MAX_KEYS:
        raise problems.too_many_keys(len(distinct), MAX_KEYS)
    for key in distinct:
        checked_key(key)
    return distinct


def new_id() -> str:
    """Return a random id, too long to guess, which no command takes for an option."""
    # As `secrets.token_urlsafe` does it, in a third of the steps.
    while (drawn := b2a_base64(urandom(ID_BYTES)).translate(_IN_PATHS, _PADDING)).startswith(b"-"):
        pass
    return drawn.decode()


def checked_id(operation_id: str) -> str:
    """Return an operation id if it is valid.

    Raises:
        Problem: ``invalid`` at ``/id``; the detail names the grammar.
    """
    if _ID.fullmatch(operation_id) is None:
        raise problems.invalid("/id", f"must follow {ID_GRAMMAR}, got {problems.shown(operation_id)}")
    return operation_id
