"""Watch lists: which operations wait on which key.

Most keys have one watcher, so a sole watcher is stored bare and only the second makes a dict: 29 bytes per key
instead of 253, and three times as fast with five keys (python -m bench.core --only task). A dict, unlike a set,
keeps the order of arrival. A key whose last watcher leaves is gone.

Operations on the same keys, like a quorum's replicas, share one list, entered and left once for all keys: 12 000
operations on three keys cost two thirds of a list per key (python -m bench.proposal --callback). The first operation
on only some of the keys splits the list into one dict per key; this happens once to each operation.

A key's ``__eq__`` is the caller's code, and any lookup may raise. Entering is undone without a lookup. Sharing and
splitting go key by key, and each step leaves correct lists. Leaving cannot be refused, so a watcher that no lookup
finds is searched for. A key that cannot be deleted stays vacant: its entry is an empty list or a watcher that left.

What is listed and counted, and how it is read, is in `watch_counts`.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final, cast

from purgatory_async.core.watch_counts import WatchCounts
from purgatory_async.core.watch_lists import (
    NO_KEYS,
    SharedList,
    Watcher,
    in_turn,
    is_vacant,
    keys_of,
    refuse_equal,
)
from purgatory_async.native import also_compiled

_LONG: Final = 16_384
"""Bytes of a dict that is too long to search for its first watcher: 341 slots, nearly all of which may be empty."""


@also_compiled
class WatchTable(WatchCounts):
    """Watch key to watchers, in both directions: how operations enter and leave. Base of the purgatory's core."""

    __slots__ = ()

    def _in_turn(self, key: Hashable) -> Iterable[Watcher]:
        """A key's watchers as `in_turn`, for callers that repeatedly take the first few. Amortised O(taken).

        A dict searches for its first entry past all deleted ones, an `OrderedDict` does not. A long list becomes an
        `OrderedDict` at its first check with a limit, which costs that check O(watchers).
        """
        found = self._watchers.get(key)
        if not isinstance(found, dict):
            return self._watchers_of(key)
        if type(found) is not OrderedDict and found.__sizeof__() > _LONG:
            if type(found) is SharedList:
                self._unshare(found, OrderedDict.fromkeys)
            else:
                self._watchers[key] = OrderedDict.fromkeys(found)
        return in_turn(cast("dict[Watcher, None]", self._watchers[key]))

    def _add(self, watcher: Watcher, keys: tuple[Hashable, ...]) -> None:
        """Watch distinct keys, or none if a key's hash or comparison raises. O(keys)."""
        first = keys[0]
        watchers = self._watchers
        found = watchers.setdefault(first, watcher) if len(keys) == 1 else watchers.get(first)
        if type(found) is SharedList and found.of is keys and found:
            shared: SharedList | None = found
        else:
            shared = None if found is None or found is watcher else self._shared_list(found, keys)
        if shared is not None:
            refuse_equal(watcher)
            shared[watcher] = None
            self._more_pending += 1
            self._more_pairs += shared.width
        elif found is not watcher:  # which `setdefault` has entered
            self._enter(watcher, keys)
        if shared is not None and shared.of is keys:
            watcher._keys = shared
        else:
            watcher._keys = first if len(keys) == 1 and type(first) is not tuple else keys
        arrivals = self._arrivals
        newest = watcher._older = arrivals._older
        watcher._newer = arrivals
        newest._newer = arrivals._older = watcher

    def _shared_list(
        self, found: Watcher | dict[Watcher, None], keys: tuple[Hashable, ...]
    ) -> SharedList | None:
        """The list of exactly these keys, made now if they have had a sole watcher; None if they cannot share one.

        ``found`` is the first key's entry.
        """
        if type(found) is SharedList:
            return found if found and found.of == keys else None
        if not isinstance(found, Watcher) or is_vacant(found) or keys != keys_of(found):
            return None
        if any(self._watchers.get(key) is not found for key in keys):
            return None
        refuse_equal(found)
        shared = SharedList((), found)
        switched = 0
        try:
            for key in keys:
                self._watchers[key] = shared
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
                found = watchers.setdefault(key, watcher)
                if found is watcher:
                    continue
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
                watchers.popitem()  # removes its own newest keys without a comparison
            for own in entered:
                del own[watcher]
                self._vacant += not own
            raise
        new = len(watchers) - known
        self._more_pending += 1 - new
        self._more_pairs += len(keys) - new

    def _own_list(self, key: Hashable, found: Watcher | dict[Watcher, None]) -> dict[Watcher, None]:
        """Replace a key's entry by a list of its own, and return it."""
        if is_vacant(found):
            self._watchers[key] = {}
        elif isinstance(found, SharedList):
            self._unshare(found, dict)
        else:
            refuse_equal(found)
            self._watchers[key] = {found: None}  # type: ignore[dict-item]  # not a dict: sole
        return self._watchers[key]  # type: ignore[return-value]  # just made

    def _remove(self, watcher: Watcher) -> None:
        """Leave every list at once. O(keys of the watcher)."""
        keys = watcher._keys
        watchers = self._watchers
        try:
            if type(keys) is SharedList:
                self._leave_shared(keys, watcher)
            elif type(keys) is tuple or watchers[keys] is not watcher:
                self._leave(watcher)
            else:
                del watchers[keys]  # the sole watcher of its only key
        except BaseException as exception:  # noqa: BLE001 - leaving cannot be refused
            self._search_out(watcher, exception)
        watcher._keys = NO_KEYS
        older, newer = watcher._older, watcher._newer
        older._newer = newer
        newer._older = older
        watcher._older = watcher._newer = None  # type: ignore[assignment]  # keep no neighbour alive

    def _leave(self, watcher: Watcher) -> None:
        """Leave the list of each key; if a lookup raises, the caller goes on with `_search_out`."""
        watchers = self._watchers
        keys = keys_of(watcher)
        known = len(watchers)
        for key in keys:
            found = watchers[key]
            if found is not watcher:
                if type(found) is not SharedList:
                    del found[watcher]  # type: ignore[union-attr]  # a sole watcher's key has changed
                elif found.width == len(keys):
                    self._leave_shared(found, watcher)
                    return
                else:
                    found.pop(watcher, None)  # a key may find it more than once
                if found:
                    continue
            del watchers[key]
        gone = known - len(watchers)
        self._more_pending += gone - 1
        self._more_pairs += gone - len(keys)

    def _leave_shared(self, shared: SharedList, watcher: Watcher) -> None:
        """Leave a shared list, and delete its keys if no watcher is left."""
        del shared[watcher]
        self._more_pending -= 1
        self._more_pairs -= shared.width
        if not shared:
            self._give_up(shared)

    def _give_up(self, empty: SharedList) -> None:
        """Delete the keys of a shared list without watchers."""
        keys = empty.of
        empty.now_of(())
        for key in keys:
            del self._watchers[key]
        self._more_pending += len(keys)
        self._more_pairs += len(keys)

    def _search_out(self, watcher: Watcher, exception: BaseException) -> None:
        """Remove a leaving watcher from every list without a lookup, and recount. O(watched)."""
        watchers = self._watchers
        watcher._keys = NO_KEYS  # a key whose sole watcher it was is now vacant
        while watchers and next(reversed(watchers.values())) is watcher:
            watchers.popitem()
        for found in watchers.values():
            if isinstance(found, dict):
                found.pop(watcher, None)
        try:
            for key in [key for key, found in watchers.items() if is_vacant(found)]:
                del watchers[key]
        except BaseException:  # noqa: BLE001, S110 - only the first is reported; these keys stay vacant
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
        """Report a key's exception; its watcher has left nevertheless."""
        raise NotImplementedError(f"{type(self).__name__} must report exceptions that have no caller")

    def _unshare(self, shared: SharedList, own: Callable[[SharedList], dict[Watcher, None]]) -> None:
        """Give each key its own list. O(watchers * keys), once in the life of each watcher."""
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


def distinct_keys(keys: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the keys as a tuple, in order, without duplicates.

    Raises:
        ValueError: There are none.
        TypeError: It is a string, not iterable, or a key is not hashable.
    """
    if type(keys) is tuple and len(keys) == 1:  # pyright: ignore[reportUnknownArgumentType]
        hash(keys[0])  # raises unless it is hashable  # pyright: ignore[reportUnknownArgumentType]
        return keys  # pyright: ignore[reportUnknownVariableType]
    if type(keys) is tuple and len(set(keys)) == len(keys) > 0:  # pyright: ignore[reportUnknownArgumentType]
        return keys  # pyright: ignore[reportUnknownVariableType]
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys must be an iterable of watch keys, got {keys!r}; did you mean [{keys!r}]?")
    distinct = tuple(dict.fromkeys(keys))  # pyright: ignore[reportUnknownArgumentType]
    if not distinct:
        raise ValueError(f"an operation must watch at least one key, got {keys!r}")
    return distinct
