"""Takes with an Idempotency-Key: a key is one take, however often it is asked for.

While its takers stand in line, the first that gets items shares them with the others. While the leases last, a
repeated request gets them. After that the key is free.
"""

from typing import Final

from purgatory_async.durable.fold.entries import WantItem
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, KeptBytes, text_bytes

Key = tuple[str | None, str]
"""The owner, and its Idempotency-Key."""


class Take:
    """A take of one key: in line, or with leases, which pin its bytes.

    Attributes:
        key: Its key.
        digest: The digest of its request.
        in_line: The ids of its takers in line, in the order in which they came.
        taker: The id of the one that has the leases; empty while none has.
        leases: How many of them last.
        shared: Whether further requests have got them, so that none may give them back by leaving.
    """

    __slots__ = ("digest", "in_line", "key", "leases", "shared", "taker")

    def __init__(self, key: Key, digest: str) -> None:
        self.key: Final = key
        self.digest: Final = digest
        self.in_line: Final[dict[str, None]] = {}
        self.taker = ""
        self.leases = 0
        self.shared = False

    def __repr__(self) -> str:
        return f"<Take of {self.key!r} in_line={len(self.in_line)} leases={self.leases}>"

    @property
    def size(self) -> int:
        """The bytes that it counts while it has leases."""
        return PIECE_BYTES + text_bytes(self.key[1]) + len(self.digest)


class Takes(dict[Key, Take]):
    """The takes of all keys, as long as they are in line or have leases.

    Args:
        kept: Counts their bytes.
    """

    def __init__(self, kept: KeptBytes) -> None:
        super().__init__()
        self._kept: Final = kept

    def of(self, order: WantItem) -> Take | None:
        """Return the take of a taker's key; None for a new key, or without one. O(1)."""
        return self.get((order.owner, order.idem)) if isinstance(order.idem, str) else None

    def stand(self, order: WantItem) -> None:
        """Note that a taker stands in line. O(1)."""
        if isinstance(order.idem, str):
            self._made((order.owner, order.idem), order.digest).in_line[order.lease_id] = None

    def leave(self, order: WantItem) -> None:
        """Note that a taker has left the line. O(1)."""
        take = self.of(order)
        if take is not None:
            del take.in_line[order.lease_id]
            self._forget_idle(take)

    def begin(self, order: WantItem) -> Take | None:
        """Return the take of a taker that gets items, whose leases follow; None without a key. O(1)."""
        if not isinstance(order.idem, str):
            return None
        return self.restore((order.owner, order.idem), order.digest, order.lease_id)

    def restore(self, key: Key, digest: str, taker: str, *, shared: bool = False) -> Take:
        """Return one whose leases follow. O(1)."""
        take = self._made(key, digest)
        take.taker, take.shared = taker, shared
        self._kept.pin(take.size, key[0])
        return take

    def end_lease(self, take: Take) -> None:
        """Note the end of a lease; the last one frees the key. O(1)."""
        take.leases -= 1
        if not take.leases:
            self._kept.pin(-take.size, take.key[0])
            self._forget_idle(take)

    def _made(self, key: Key, digest: str) -> Take:
        take = self.get(key)
        if take is None:
            take = self[key] = Take(key, digest)
        return take

    def _forget_idle(self, take: Take) -> None:
        if not take.in_line and not take.leases:
            del self[take.key]
