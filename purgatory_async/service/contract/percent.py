"""Percent-escapes, which have one spelling wherever a client writes them: in paths, queries and the tokens file."""

import re
from typing import Final

from purgatory_async.durable.documents import problems

_ESCAPE_AHEAD: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")


def percent_decoded(raw: bytes) -> str:
    """Decode the percent-escapes and UTF-8 of a path segment, or of a query's name or value.

    Raises:
        ValueError: An escape lacks two hex digits, or the bytes are not UTF-8; the message shows them.
    """
    if b"%" in raw:
        if _ESCAPE_AHEAD.search(raw):
            raise ValueError(f"each % must be followed by two hex digits, got {problems.shown(raw)}")
        raw = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), raw)
    return raw.decode()
