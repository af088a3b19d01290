"""Ended operations that are kept for a time of their own, and what is remembered of them after that.

They never make room: their bytes count as pinned, of their owners too. So who asked finds the answer, and a
question that was asked once is not asked again as long as its id is remembered.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from purgatory_async.durable.fold.entries import Text
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, text_bytes
from purgatory_async.durable.fold.shared import AT_ONCE, NEVER_US, Shared

_FEW: Final = 64  # stale places that are not worth sweeping

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Until(Generic[K, V]):
    """Values by name, each until a time of its own.

    >>> kept = Until[str, int]()
    >>> kept.add("b", 20, 1), kept.add("a", 20, 2), kept.add("c", 10, 3)
    (None, None, None)
    >>> kept.pop("c"), kept.first
    (3, (20, 'a'))

    Attributes:
        by_name: Each time and value, for reading.
    """

    __slots__ = ("_heap", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[K, tuple[int, V]] = {}
        self._heap: list[tuple[int, K]] = []

    def __repr__(self) -> str:
        return f"<Until names={len(self)}>"

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[tuple[K, int, V]]:
        """Iterate over each name, its time and its value, in the order in which they go. O(n log n)."""
        order = sorted((until_us, name) for name, (until_us, _) in self.by_name.items())
        return ((name, until_us, self.by_name[name][1]) for until_us, name in order)

    def get(self, name: K) -> V | None:
        """Return the value of a name; None for an unknown one. O(1)."""
        known = self.by_name.get(name)
        return None if known is None else known[1]

    def add(self, name: K, until_us: int, value: V) -> None:
        """Add a name, which is new. O(log n)."""
        self.by_name[name] = until_us, value
        heappush(self._heap, (until_us, name))

    def pop(self, name: K) -> V:
        """Remove a name, and return its value. O(1), amortised."""
        _, value = self.by_name.pop(name)
        if len(self._heap) > _FEW + 2 * len(self.by_name):
            self._heap = [(until_us, each) for each, (until_us, _) in self.by_name.items()]
            heapify(self._heap)
        return value

    @property
    def first(self) -> tuple[int, K] | None:
        """The time and the name of the first to go; None if there is none. O(1), amortised."""
        heap = self._heap
        while heap:
            until_us, name = heap[0]
            known = self.by_name.get(name)
            if known is not None and known[0] == until_us:
                return heap[0]
            heappop(heap)
        return None


class Gone(NamedTuple):
    """What is remembered of a forgotten operation."""

    owner: str | None
    idem: Text = UNSET
    digest: str = ""

    def size(self, operation_id: str) -> int:
        """Return what it counts. O(1)."""
        idem = 0 if isinstance(self.idem, UnsetType) else text_bytes(self.idem) + len(self.digest)
        return PIECE_BYTES + text_bytes(operation_id) + idem


class KeptAnswers(Generic[V]):
    """Ended operations, each until a time of its own; then their ids and Idempotency-Keys for a further one.

    Args:
        shared: The limits, and where bytes are counted.

    Attributes:
        ended: The operations by the position of their submission.
        ids: What is remembered of those that were forgotten.
        by_idem: The same ids by owner and Idempotency-Key.
        size: The bytes that all of this counts.
    """

    def __init__(self, shared: Shared) -> None:
        self.ended: Final[Until[int, V]] = Until()
        self.ids: Final[Until[str, Gone]] = Until()
        self.by_idem: Final[dict[tuple[str | None, str], str]] = {}
        self.size = 0
        self._shared: Final = shared

    def __repr__(self) -> str:
        return f"<KeptAnswers ended={len(self.ended)} ids={len(self.ids)}>"

    def keep(self, position: int, until_us: int, operation: V) -> None:
        """Keep an operation that has ended. O(log n)."""
        self.ended.add(position, until_us, operation)
        self._shared.forget_by(until_us)

    def pin(self, size: int, owner: str | None) -> None:
        """Count some bytes more that are kept, or fewer. O(1)."""
        self.size += size
        self._shared.kept.pin(size, owner)

    def remember(self, operation_id: str, until_us: int, gone: Gone) -> None:
        """Remember the id of an operation that was forgotten. O(log n)."""
        self.ids.add(operation_id, until_us, gone)
        self.pin(gone.size(operation_id), gone.owner)
        if isinstance(gone.idem, str):
            self.by_idem[gone.owner, gone.idem] = operation_id
        self._shared.forget_by(until_us)

    def discard(self, operation_id: str) -> None:
        """Forget an id that is remembered. O(1), amortised."""
        gone = self.ids.pop(operation_id)
        self.pin(-gone.size(operation_id), gone.owner)
        if isinstance(gone.idem, str):
            del self.by_idem[gone.owner, gone.idem]

    def forget_ids(self, whole_us: int) -> int:
        """Forget the ids that were remembered long enough; as `Operations.forget`. O(forgotten log n)."""
        for _ in range(AT_ONCE):
            first = self.ids.first
            if first is None or first[0] > whole_us:
                return NEVER_US if first is None else first[0]
            self.discard(first[1])
        return whole_us
