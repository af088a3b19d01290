"""What spans of this package have in common: their names, their attributes.

An attribute has the prefix of a key, as the pipeline's tables do, because a whole key may name a person or an order.

>>> prefix_of("order:42"), prefix_of("docs/a/b"), prefix_of("door"), prefix_of(("order", 42))
('order', 'docs', None, None)
>>> name_of("operation", ("order:42", "order:43")), name_of("operation", ("door",))
('operation order', 'operation')
"""

import re
from collections.abc import Hashable, Iterable
from typing import Final

PREFIX: Final = "purgatory.key.prefix"
KEYS: Final = "purgatory.keys"
OUTCOME: Final = "purgatory.outcome"
HELD: Final = "purgatory.held_seconds"
ID: Final = "purgatory.operation.id"
BY: Final = "purgatory.by"
WHICH: Final = "purgatory.link"
"""Of a link: ``submit`` or ``end``."""
ERROR: Final = "error.type"

_SIGN: Final = re.compile("[:/]")


def prefix_of(key: Hashable) -> str | None:
    """Return the part of a key before its first ``:`` or ``/``; None for a key without one. O(its length)."""
    before, *more = _SIGN.split(key, 1) if isinstance(key, str) else (None,)
    return before if more else None


def first_prefix(keys: Iterable[Hashable]) -> str | None:
    """Return the prefix of the first key that has one. O(keys)."""
    return next((prefix for key in keys if (prefix := prefix_of(key)) is not None), None)


def name_of(what: str, keys: Iterable[Hashable]) -> str:
    """Return the name of a span: what it is of, and the prefix of a key. It has few values. O(keys)."""
    prefix = first_prefix(keys)
    return what if prefix is None else f"{what} {prefix}"
