"""Whether two submissions ask for the same, and two answers are the same: JSON is compared by what it means.

The order of members and white space do not count, and numbers count by their exact value: 1, 1.0 and 1e0 are equal, a
digit behind the precision of a float is not lost, and true is not 1.

>>> from msgspec import UNSET, Raw
>>> same_json(Raw(b'{"a": 1.0, "b": true}'), Raw(b'{"b":true,"a":1}')), same_json(Raw(b"true"), Raw(b"1"))
(True, False)
>>> same_json(Raw(b"0.1"), Raw(b"0.1000000000000000055511151231257827")), same_json(Raw(b"null"), UNSET)
(False, False)
"""

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, UnsetType

from purgatory_async.durable.documents import Ask, Attached, WireNeed
from purgatory_async.durable.fold.entries import OptionalDuration, SubmitOperation, Text

_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_WHOLE: Final = 20
"""Digits of an integer of 64 bits, as which the same value is read without a fraction."""


class Terms(NamedTuple):
    """What an operation was submitted with, defaults filled in; not what was only of that moment."""

    keys: tuple[str, ...]
    need: WireNeed
    timeout: int | None
    deadline: int | UnsetType
    keep: OptionalDuration
    ask: Ask | UnsetType
    announce: Text
    deliver: Text
    data: Attached


def terms_of(order: SubmitOperation) -> Terms:
    """Return the terms of a submission. O(1)."""
    return Terms(
        order.keys,
        order.need,
        order.timeout_us,
        order.until_us,
        order.keep_us,
        order.ask,
        order.announce,
        order.deliver,
        order.data,
    )


def differing(some: Terms, others: Terms) -> tuple[str, ...]:
    """Return the names of the terms that differ. O(their bytes)."""
    names = [
        name
        for name, one, other in zip(Terms._fields[:-1], some[:-1], others[:-1], strict=True)
        if one != other
    ]
    return (*names,) if same_json(some.data, others.data) else (*names, "data")


def same_json(one: Attached, other: Attached) -> bool:
    """Whether two attachments mean the same; absent is not null. O(bytes)."""
    if not (isinstance(one, Raw) and isinstance(other, Raw)):
        return one is other
    return bytes(one) == bytes(other) or canonical(one) == canonical(other)


def canonical(text: Raw) -> bytes:
    """Return the text that all JSON of one meaning has. O(bytes, and the sorting of members)."""
    return _ENCODER.encode(_VALUE.decode(text))


def _number(text: str) -> int | Decimal:
    value = _EXACT.create_decimal(text)
    if value.adjusted() < _WHOLE and value == (whole := int(value)):
        return whole
    return _EXACT.normalize(value)


_VALUE: Final = msgspec.json.Decoder(float_hook=_number)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic", decimal_format="number")
