"""Watch lists: which operations wait on which key.

Most keys have one watcher, so a sole watcher is stored bare and a dict is made only for the second: 29 bytes a key
instead of 253, and three times as fast with five keys (python -m bench.core --only task). A dict, not a
set, because it keeps the order of arrival; a key whose last watcher leaves is gone.

Operations that watch the same keys, a quorum's replicas say, share one list, entered and left once however many keys
they are: 12 000 operations on three keys cost two thirds of what a list for each key does (python -m bench.proposal
--callback). The first operation on one of the keys that watches others makes a dict of each key's watchers, for each
its own; no operation goes through that twice.

A key's ``__eq__`` is the caller's code, and may raise in any lookup. Entering is undone without a lookup; sharing and
parting go key by key, and each step leaves lists that are right; leaving cannot be refused, so what no lookup finds
is searched for. A key that cannot be deleted stays as vacant: its entry is an empty list, or a watcher that has left.

Nothing is counted on the way in or out of a sole watch: it brings one key, one operation and one pair of them, and
takes them away again. What is counted is by how much there are more operations, and more pairs, than keys; how many
keys there are the dict knows.

All watchers also form one circular list in order of arrival, for listing them: two pointers each, where a dict
would take 42 bytes.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from purgatory_async.core.watch_lists import (
    NO_KEYS,
    SharedList,
    Watcher,
    identity,
    in_turn,
    is_vacant,
    keys_of,
    refuse_equal,
)

__all__ = ["WatchTable", "distinct_keys"]

_LONG: Final = 16_384
"""How many bytes of dict are too many to look for the first watcher: more than 341 places, of which all but the last
may be of watchers that have left."""


class WatchTable:
    """Watch key to watchers, in both directions, with exact counts.

    Base of the purgatory's core, which writes the sole-watcher path out where it is hot.
    """

    __slots__ = ("_arrivals", "_last_shared", "_more_pairs", "_more_pending", "_vacant", "_watchers")

    def __init__(self) -> None:
        # A value is the sole watcher itself, or a list that the key shares with others, or a list of its own.
        self._watchers: dict[Hashable, Watcher | dict[Watcher, None]] = {}
        self._more_pending = 0  # operations beyond the number of keys; may be negative
        self._more_pairs = 0  # (operation, key) pairs beyond the number of keys
        self._vacant = 0  # how many of the keys have no watcher, but could not be deleted
        self._last_shared = SharedList(NO_KEYS)  # entered last: its keys need no second look
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
        """Count how many operations watch each key, for a caller that lets others run in between.

        Args:
            keys: Only these; None for all that are watched at the first step.

        Yields:
            Keys and counts, each exact when it is given. A key that nothing watches is left out. O(1) a step,
            but the first, which notes all keys.

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
        if found is None or is_vacant(found):
            return []
        return list(found) if isinstance(found, dict) else [found]

    def _in_turn(self, key: Hashable, found: dict[Watcher, None]) -> Iterator[Watcher]:
        """A key's watchers as `in_turn`, for the first few again and again. Amortised O(watchers taken).

        A dict finds its first entry behind the places of all that have left, an `OrderedDict` at once. A long list
        becomes one at its first check with a limit, which costs that check O(watchers).
        """
        if type(found) is not OrderedDict and found.__sizeof__() > _LONG:
            if type(found) is SharedList:
                self._unshare(found, OrderedDict.fromkeys)
            else:
                self._watchers[key] = OrderedDict.fromkeys(found)
            found = self._watchers[key]  # type: ignore[assignment]  # a list
        return in_turn(found)

    def _arrived(self) -> Iterator[Watcher]:
        """All watchers, oldest first; the one given last may leave meanwhile."""
        watcher = self._arrivals._newer
        while watcher is not self._arrivals:
            newer = watcher._newer
            yield watcher
            watcher = newer

    def _add(self, watcher: Watcher, keys: tuple[Hashable, ...]) -> None:
        """Watch distinct keys, at the end of each list, or none if a key's hash or comparison raises. O(keys).

        Its place in the order of arrival it is given by whoever calls.
        """
        found = self._watchers.get(keys[0])
        if type(found) is not SharedList and found is not None:
            found = self._shared_with(found, keys)
        if type(found) is not SharedList or not found or (found.of is not keys and found.of != keys):
            self._enter(watcher, keys)
        else:
            if type(watcher).__eq__ is not identity:
                refuse_equal(watcher)
            found[watcher] = None
            self._more_pending += 1
            self._more_pairs += found.width
            self._last_shared = found
            if found.of is keys:
                watcher._keys = found
                return
        watcher._keys = keys[0] if len(keys) == 1 and type(keys[0]) is not tuple else keys

    def _shared_with(
        self, found: Watcher | dict[Watcher, None], keys: tuple[Hashable, ...]
    ) -> SharedList | None:
        """Let a watcher that is alone on exactly these keys share a list; None if it is not."""
        watchers = self._watchers
        if not isinstance(found, Watcher) or is_vacant(found):
            return None
        if keys != keys_of(found):
            return None
        if any(watchers.get(key) is not found for key in keys):
            return None
        if type(found).__eq__ is not identity:
            refuse_equal(found)
        shared = SharedList((), found)
        switched = 0
        try:
            for key in keys:
                watchers[key] = shared
                switched += 1
        finally:
            shared.now_of(keys[:switched])
        return shared

    def _enter(self, watcher: Watcher, keys: tuple[Hashable, ...]) -> None:
        """Put a watcher on the list of each key, or on none."""
        watchers = self._watchers
        known = len(watchers)
        entered: list[dict[Watcher, None]] = []
        try:
            for key in keys:
                found = watchers.get(key)
                if found is None:
                    watchers[key] = watcher
                    continue
                if type(watcher).__eq__ is not identity:
                    refuse_equal(watcher)
                if isinstance(found, dict) and type(found) is not SharedList and found:
                    own = found
                else:
                    own = self._own_list(key, found)
                self._vacant -= not own
                own[watcher] = None
                entered.append(own)
        except BaseException:
            while len(watchers) > known:
                watchers.popitem()  # the newest keys are its own, and this compares none
            for own in entered:
                del own[watcher]
                self._vacant += not own
            raise
        new = len(watchers) - known
        self._more_pending += 1 - new
        self._more_pairs += len(keys) - new

    def _own_list(self, key: Hashable, found: Watcher | dict[Watcher, None]) -> dict[Watcher, None]:
        """The list that a key has for itself from now on, instead of what was found."""
        if is_vacant(found):
            self._watchers[key] = {}
        elif isinstance(found, SharedList):
            self._unshare(found, dict)
        else:
            if type(found).__eq__ is not identity:
                refuse_equal(found)
            self._watchers[key] = {found: None}  # type: ignore[dict-item]  # not a dict: sole
        return self._watchers[key]  # type: ignore[return-value]  # just made

    def _remove(self, watcher: Watcher) -> None:
        """Leave every list at once. O(keys of the watcher)."""
        try:
            self._leave(watcher)
        except BaseException as exception:  # noqa: BLE001 - leaving cannot be refused
            self._search_out(watcher, exception)
        watcher._keys = NO_KEYS
        older, newer = watcher._older, watcher._newer
        older._newer = newer
        newer._older = older
        watcher._older = watcher._newer = None  # type: ignore[assignment]  # keep no neighbour alive

    def _leave(self, watcher: Watcher) -> None:
        """Leave the list of each key; where a lookup raises, `_search_out` must go on."""
        watchers = self._watchers
        keys = keys_of(watcher)
        known = len(watchers)
        for key in keys:
            found = watchers[key]
            if found is not watcher:
                if type(found) is not SharedList:
                    del found[watcher]  # type: ignore[union-attr]  # a sole watcher's key has changed
                elif found.width == len(keys):
                    del found[watcher]
                    self._more_pending -= 1
                    self._more_pairs -= found.width
                    if not found:
                        self._give_up(found)
                    return
                else:
                    found.pop(watcher, None)  # it may come more than once
                if found:
                    continue
            del watchers[key]
        gone = known - len(watchers)
        self._more_pending += gone - 1
        self._more_pairs += gone - len(keys)

    def _give_up(self, empty: SharedList) -> None:
        """Forget the keys of a shared list that every watcher has left."""
        keys = empty.of
        empty.now_of(())
        for key in keys:
            del self._watchers[key]
        self._more_pending += len(keys)
        self._more_pairs += len(keys)

    def _search_out(self, watcher: Watcher, exception: BaseException) -> None:
        """Take a watcher that is leaving out of every list without a lookup, and count anew. O(watched)."""
        watchers = self._watchers
        watcher._keys = NO_KEYS  # where it is a key's sole watcher, the key is vacant
        while watchers and next(reversed(watchers.values())) is watcher:
            watchers.popitem()
        for found in watchers.values():
            if isinstance(found, dict):
                found.pop(watcher, None)
        try:
            for key in [key for key, found in watchers.items() if is_vacant(found)]:
                del watchers[key]
        except BaseException:  # noqa: BLE001, S110 - reported is the first; these keys are kept as vacant
            pass
        counts = [
            len(found) if isinstance(found, dict) else 1
            for found in watchers.values()
            if not is_vacant(found)
        ]
        self._vacant = len(watchers) - len(counts)
        self._more_pairs = sum(counts) - len(watchers)
        self._more_pending = sum(other is not watcher for other in self._arrived()) - len(watchers)
        self._key_raised(watcher, exception)

    def _key_raised(self, watcher: Watcher, exception: BaseException) -> None:
        """A key's comparison raised while a watcher left, which has left all the same."""
        raise NotImplementedError("what has no caller is reported by those who know the loop")

    def _unshare(self, shared: SharedList, own: Callable[[SharedList], dict[Watcher, None]]) -> None:
        """Give each key a list of its own. O(watchers * keys), and once in the life of each watcher."""
        keys = shared.of
        for watcher in shared:
            if watcher._keys is shared:
                watcher._keys = keys
        parted = 0
        try:
            for key in keys:
                self._watchers[key] = own(shared)
                parted += 1
        finally:
            shared.now_of(keys[parted:])

    def _drop_sentinel(self) -> None:
        """Cut the cycle that the sentinel of an empty list is; nothing can be added any more."""
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
                assert all(sharing), f"key {key!r} has a list that is not that of all of {found.of!r}"
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


def distinct_keys(keys: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """The keys as a tuple, in order, without duplicates.

    Raises:
        ValueError: There are none.
        TypeError: It is a string, not iterable, or a key is not hashable.
    """
    if type(keys) is tuple and len(set(keys)) == len(keys) > 0:
        return keys
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys must be an iterable of watch keys, got {keys!r}; did you mean [{keys!r}]?")
    distinct = tuple(dict.fromkeys(keys))
    if not distinct:
        raise ValueError(f"an operation must watch at least one key, got {keys!r}")
    return distinct
