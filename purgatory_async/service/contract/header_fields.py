"""Header fields by name, for all that look them up: access, the request's id, endpoints.

A client repeats its fields, so the connection parses them once and keeps them as `Fields`: all requests with the same
fields share the index, and what was decided by the fields alone.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

Field = tuple[bytes, bytes]
"""A name in lower case, as ASGI requires, and a value."""


class Fields(tuple[Field, ...]):  # noqa: SLOT001 - a tuple can have none
    """Header fields in order, with their index.

    Attributes:
        by_name: The values of each name, in order; not to be changed.
        decided: What was decided by these fields alone, under a key of who decided it. Never an admission.
    """

    by_name: Mapping[bytes, Sequence[bytes]]
    decided: dict[Hashable, Any]

    def __new__(cls, fields: Iterable[Field] = ()) -> Self:
        """Index the fields. O(fields)."""
        made = super().__new__(cls, fields)
        index: dict[bytes, list[bytes]] = {}
        for name, value in made:
            index.setdefault(name, []).append(value)
        made.by_name, made.decided = index, {}
        return made

    def values(self, name: str) -> Sequence[bytes]:
        """Return the values of one name in lower case, in order. O(1)."""
        return self.by_name.get(name.encode(), _NONE)

    def text(self, name: str) -> str | None:
        """Return the values of one name in lower case, joined by commas; None if it is absent. O(1)."""
        values = self.by_name.get(name.encode())
        return None if values is None else b", ".join(values).decode("latin-1")


_NONE: Final[tuple[bytes, ...]] = ()
