"""The rules for watch keys and operation ids on the wire.

A key is text of 1 to 512 bytes in UTF-8, not normalised: two spellings are two keys. ``.`` and ``..`` are refused
because clients and proxies fold them out of paths, control characters because they can corrupt logs and terminals.
"""

import re
import secrets
from collections.abc import Iterable
from typing import Final

from purgatory_async.service.contract import problems

MAX_KEY_BYTES: Final = 512
MAX_KEYS: Final = 64
ID_GRAMMAR: Final = "[A-Za-z0-9._~-]{1,128}"
ID_BYTES: Final = 16  # random ones

_ID: Final = re.compile(ID_GRAMMAR)
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f]")  # Unicode's category Cc, which never grows


def checked_key(key: str) -> str:
    """Return a decoded key if it is valid.

    Raises:
        Problem: ``bad-key``; the detail names the broken rule.
    """
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
    return tuple(checked_key(key) for key in distinct)


def new_id() -> str:
    """Return a random id, too long to guess, which no command takes for an option."""
    while (drawn := secrets.token_urlsafe(ID_BYTES)).startswith("-"):
        pass
    return drawn


def checked_id(operation_id: str) -> str:
    """Return an operation id if it is valid.

    Raises:
        Problem: ``invalid`` at ``/id``; the detail names the grammar.
    """
    if _ID.fullmatch(operation_id) is None:
        raise problems.invalid("/id", f"must follow {ID_GRAMMAR}, got {problems.shown(operation_id)}")
    return operation_id
