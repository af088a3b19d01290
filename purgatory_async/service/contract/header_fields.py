"""Header fields by name, for all that look them up: access, the request's id, endpoints.

A client repeats its fields, so the connection parses them once and keeps them as `Fields`, whose index all requests
with the same fields share. Any other ASGI server has a list, which is indexed at each lookup.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

Field = tuple[bytes, bytes]
"""A name in lower case, as ASGI requires, and a value."""


class Fields(tuple[Field, ...]):  # noqa: SLOT001 - a tuple can have none
    """Header fields in order, with their index.

    Attributes:
        by_name: The values of each name, in order; not to be changed.
    """

    by_name: Mapping[bytes, Sequence[bytes]]

    def __new__(cls, fields: Iterable[Field]) -> Self:
        """Index the fields. O(fields)."""
        made = super().__new__(cls, fields)
        made.by_name = _index(made)
        return made


def by_name(fields: Any) -> Mapping[bytes, Sequence[bytes]]:
    """Return the values of each name, in order. O(1) for `Fields`, else O(fields).

    Args:
        fields: ASGI's: pairs of names and values.
    """
    return fields.by_name if type(fields) is Fields else _index(fields)


def values_of(fields: Any, name: bytes) -> Sequence[bytes]:
    """Return the values of one name, in order. O(1) for `Fields`, else O(fields)."""
    if type(fields) is Fields:
        return fields.by_name.get(name, _NONE)
    return [value for given, value in fields if given == name]


_NONE: Final[tuple[bytes, ...]] = ()


def _index(fields: Iterable[Field]) -> dict[bytes, list[bytes]]:
    index: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        index.setdefault(name, []).append(value)
    return index
