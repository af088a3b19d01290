"""History by name: ids of what has ended, and answers of Idempotency-Keys, each for the retention time at most."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES
from purgatory_async.durable.fold.shared import AT_ONCE, NEVER_US, Shared

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """What is remembered of each name, in the order in which it came. It makes room, the oldest first.

    Args:
        shared: The retention time, and where bytes are counted.
        text: Returns how many bytes of text a name and its value have.

    Attributes:
        size: The bytes that they count.
    """

    def __init__(self, shared: Shared, text: Callable[[K, V], int]) -> None:
        self.size = 0
        # Not a dict, whose first is found by a scan past all that were removed before it.
        self._entries: Final[OrderedDict[K, tuple[int, V]]] = OrderedDict()
        self._text: Final = text
        self._shared: Final = shared

    def __repr__(self) -> str:
        return f"<Remembered names={len(self._entries)} size={self.size}>"

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[tuple[K, int, V]]:
        """Iterate over each name, the log time at which it came, and its value; the oldest first."""
        return ((name, at_us, value) for name, (at_us, value) in self._entries.items())

    def get(self, name: K) -> V | None:
        """Return the value of a name; None for an unknown one. O(1)."""
        entry = self._entries.get(name)
        return None if entry is None else entry[1]

    def add(self, name: K, at_us: int, value: V) -> None:
        """Remember a name from a log time on. O(1)."""
        if name in self._entries:
            self.discard(name)
        self._entries[name] = at_us, value
        self._count(PIECE_BYTES + self._text(name, value))

    def discard(self, name: K) -> None:
        """Forget a name; does nothing for an unknown one. O(1)."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._count(-PIECE_BYTES - self._text(name, entry[1]))

    def forget(self, whole_us: int) -> int:
        """Forget the names that were kept long enough; as `Operations.forget`. O(forgotten)."""
        retention = self._shared.limits.retention_us
        for _ in range(AT_ONCE):
            if not self._entries:
                return NEVER_US
            name, (at_us, _) = next(iter(self._entries.items()))
            if at_us + retention > whole_us:
                return at_us + retention
            self.discard(name)
        return whole_us

    def make_room(self) -> bool:
        """Forget the oldest name; False if there is none. O(1)."""
        if not self._entries:
            return False
        self.discard(next(iter(self._entries)))
        return True

    def _count(self, size: int) -> None:
        self.size += size
        self._shared.kept.drop(-size)
