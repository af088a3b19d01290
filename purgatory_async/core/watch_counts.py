"""What is watched: the operations of each key, how many they are, and their order of arrival. `WatchTable` changes it.

A sole watch needs no counting: it adds and removes one key, one operation and one pair. Counted are only the
operations and the pairs beyond the number of keys, which the dict knows.

All watchers also form one circular list in order of arrival: two pointers each, where a dict would take 42 bytes.
"""

from collections.abc import Hashable, Iterable, Iterator

from purgatory_async.core.watch_lists import NO_KEYS, SharedList, Watcher, is_vacant, keys_of
from purgatory_async.errors import refuse_again, refuse_copy
from purgatory_async.native import also_compiled


@also_compiled
class WatchCounts:
    """The lists of watchers by key, with exact counts."""

    __slots__ = ("_arrivals", "_more_pairs", "_more_pending", "_vacant", "_watchers")

    __reduce_ex__ = refuse_copy

    def __init__(self) -> None:
        refuse_again(self, "_watchers")
        # A value is the sole watcher itself, a shared list, or the key's own list.
        self._watchers: dict[Hashable, Watcher | dict[Watcher, None]] = {}
        self._more_pending = 0  # operations beyond the number of keys; may be negative
        self._more_pairs = 0  # (operation, key) pairs beyond the number of keys
        self._vacant = 0  # keys without a watcher that could not be deleted
        self._arrivals = Watcher()  # sentinel: its newer is the oldest watcher, its older the newest
        self._arrivals._older = self._arrivals._newer = self._arrivals

    @property
    def pending(self) -> int:
        """Operations that have not ended. Exact, O(1)."""
        return len(self._watchers) + self._more_pending

    @property
    def watched(self) -> int:
        """(operation, key) pairs. Exact, O(1)."""
        return len(self._watchers) + self._more_pairs

    @property
    def keys(self) -> int:
        """Keys with at least one watcher. Exact, O(1)."""
        return len(self._watchers) - self._vacant

    def watchers(self, keys: Iterable[Hashable] | None = None) -> Iterator[tuple[Hashable, int]]:
        """Count the operations on each key, for a caller that lets other tasks run in between.

        Args:
            keys: Only these; None for all that are watched at the first step.

        Yields:
            Watched keys and counts, exact when yielded. O(1) per step, but O(keys) for the first.

        >>> from purgatory_async import DelayedOperation, Purgatory, Timer
        >>> from purgatory_async.testing import ManualClock
        >>> purgatory = Purgatory(timer=Timer(clock=ManualClock()))
        >>> for keys in (["order:1"], ["order:2"], ["order:1", "stock"]):
        ...     _ = purgatory.try_complete_else_watch(DelayedOperation(), keys)
        >>> dict(purgatory.watchers())
        {'order:1': 2, 'order:2': 1, 'stock': 1}
        >>> _ = purgatory.close()
        """
        watchers = self._watchers
        for key in list(watchers) if keys is None else keys:
            found = watchers.get(key)
            if found is not None and not is_vacant(found):
                yield key, len(found) if isinstance(found, dict) else 1

    def _watchers_of(self, key: Hashable) -> list[Watcher]:
        """A snapshot of a key's watchers, oldest first. O(watchers of the key)."""
        found = self._watchers.get(key)
        if isinstance(found, dict):
            return list(found)
        return [] if found is None or found._keys is NO_KEYS else [found]

    def _arrived(self) -> Iterator[Watcher]:
        """All watchers, oldest first; the one yielded last may leave meanwhile."""
        watcher = self._arrivals._newer
        while watcher is not self._arrivals:
            newer = watcher._newer
            yield watcher
            watcher = newer

    def _drop_sentinel(self) -> None:
        """Cut the empty sentinel's reference cycle; nothing can be added afterwards."""
        self._arrivals._older = self._arrivals._newer = None  # type: ignore[assignment]

    def check_invariants(self) -> None:
        """Assert that both directions and the counts agree. O(watched), for tests."""
        arrived = list(self._arrived())
        pairs = 0
        vacant = 0
        for key, found in self._watchers.items():
            if is_vacant(found):
                vacant += 1
                continue
            watchers = self._watchers_of(key)
            if type(found) is SharedList:
                sharing = [self._watchers[other] is found for other in found.of]
                assert all(sharing), f"key {key!r} does not share the list of {found.of!r}"
                assert key in found.of, f"key {key!r} has the list of {found.of!r}"
                assert found.width == len(found.of), f"{found.width} keys are counted in {found.of!r}"
            for watcher in watchers:
                keys = keys_of(watcher)
                assert key in keys, f"{watcher!r} is listed under {key!r}, which is not one of its keys"
            pairs += len(watchers)
        assert vacant == self._vacant, f"{vacant} keys are kept without a watcher, {self._vacant} counted"
        assert pairs == self.watched, f"{pairs} pairs are listed, {self.watched} counted"
        assert len(arrived) == self.pending, f"{len(arrived)} operations are listed, {self.pending} counted"
        assert len(set(map(id, arrived))) == len(arrived), "an operation is listed twice"
