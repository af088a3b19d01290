"""What makes a change safe to repeat: its Idempotency-Key, and the digest of its request.

Two requests are the same if they have one method, path, query and body: path and query decoded, the query's parameters
in any order, the body as JSON is read. The order of members and white space do not count, escapes are what they stand
for, and numbers are their values, so 1.0 is 1; an empty body is ``{}``, which it is taken for.
"""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import ROUND_UP, Context
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async.service.contract.percent import percent_decoded

_WHOLE: Final = 2.0**63
"""Below it a float without a fraction is the integer of the same value."""
_LONG: Final = 40
_ROUGH: Final = Context(prec=_LONG, rounding=ROUND_UP, traps=[])


class Repeatable(NamedTuple):
    """What makes a change safe to repeat: the Idempotency-Key, and the digest of its request."""

    key: str | UnsetType = UNSET
    digest: str = ""


ONCE: Final = Repeatable()
"""A change without an Idempotency-Key."""


def digest_of(method: str, route: str, parameters: Mapping[str, bytes], query: bytes, body: bytes) -> str:
    """Return the digest of a request. O(bytes, and the sorting of its members).

    Args:
        method: HTTP's.
        route: The template of its path.
        parameters: The path's, percent-encoded.
        query: As it was sent; it can be decoded.
        body: Checked by `strict_json`, or empty.
    """
    request = (
        method,
        route,
        sorted((name, percent_decoded(value)) for name, value in parameters.items()),
        sorted(_decoded(query)),
        _VALUE.decode(body or b"{}"),
    )
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


def _decoded(query: bytes) -> Sequence[tuple[str, str]]:
    pieces = (piece.partition(b"=") for piece in query.replace(b"+", b" ").split(b"&") if piece)
    return [(percent_decoded(name), percent_decoded(value)) for name, _, value in pieces]


def _number(text: str) -> float:
    # As in `strict_json`: `float` needs 30 us for some texts of 700 digits.
    value = float(text if len(text) <= _LONG else _ROUGH.create_decimal(text))
    return int(value) if value.is_integer() and -_WHOLE <= value < _WHOLE else value


_VALUE: Final = msgspec.json.Decoder(float_hook=_number)
