"""What makes a change safe to repeat: its Idempotency-Key, and the digest of its request.

Two requests are the same if they have one method, path and meaning: `asked_of` the entry that they make, in which
defaults are filled in and durations are read; attachments as `same.canonical`. Where the wait of a request ends, and
from which place on signals count, is of the moment, and does not count.

In a store of level 1 they also have one query, and one body as JSON is read, as its older workers compare them.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_UP, Context
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import Entry
from purgatory_async.durable.fold.same import canonical
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


_OF_THE_MOMENT: Final = frozenset(
    {"w", "n", "idem", "digest", "owner", "maker", "most", "room", "since", "gap", "attach", "submitted"}
)
"""Members of entries that a repeated request may have otherwise."""


def asked_of(entry: Entry, but: Iterable[str] = ()) -> bytes:
    """Return the text that all entries of one meaning have. O(bytes, and the sorting of members).

    Args:
        entry: The entry.
        but: Further members that a repeated request may have otherwise.
    """
    members = msgspec.json.decode(encode(entry), type=dict[str, Raw])
    left_out = _OF_THE_MOMENT.union(but)
    return canonical(Raw(encode({name: text for name, text in members.items() if name not in left_out})))


def read_body(body: bytes) -> bytes:
    """Return a body as level 1 compares it. O(bytes, and the sorting of its members)."""
    return msgspec.json.encode(_VALUE.decode(body or b"{}"), order="deterministic")


def digest_of(method: str, route: str, parameters: Mapping[str, bytes], query: bytes, asked: bytes) -> str:
    """Return the digest of a request. O(bytes).

    Args:
        method: HTTP's.
        route: The template of its path.
        parameters: The path's, percent-encoded.
        query: As it was sent; it can be decoded.
        asked: What it asks for.
    """
    request = (
        method,
        route,
        sorted((name, percent_decoded(value)) for name, value in parameters.items()),
        sorted(_decoded(query)),
        Raw(asked),
    )
    return hashlib.sha256(msgspec.json.encode(request)).hexdigest()


def _decoded(query: bytes) -> Sequence[tuple[str, str]]:
    pieces = (piece.partition(b"=") for piece in query.replace(b"+", b" ").split(b"&") if piece)
    return [(percent_decoded(name), percent_decoded(value)) for name, _, value in pieces]


def _number(text: str) -> float:
    # As in `strict_json`: `float` needs 30 us for some texts of 700 digits.
    value = float(text if len(text) <= _LONG else _ROUGH.create_decimal(text))
    return int(value) if value.is_integer() and -_WHOLE <= value < _WHOLE else value


_VALUE: Final = msgspec.json.Decoder(float_hook=_number)
