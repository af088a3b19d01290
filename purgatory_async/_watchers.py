"""Watch lists: which operations wait on which key.

Most keys have one watcher, so a sole watcher is stored bare and a dict is made only for the second: 29 bytes a key
instead of 253, and three times as fast with five keys (python -m bench.core --only task). A dict, not a
set, because it keeps the order of arrival; a key whose last watcher leaves is gone.

Operations that watch the same keys, a quorum's replicas say, share one list, entered and left once however many keys
they are: 12 000 operations on three keys cost two thirds of what a list for each key does (python -m bench.proposal
--callback). The first operation on one of the keys that watches others makes a dict of each key's watchers, for each
its own; no operation goes through that twice.

Nothing is counted on the way in or out of a sole watch: it brings one key, one operation and one pair of them, and
takes them away again. What is counted is by how much there are more operations, and more pairs, than keys; how many
keys there are the dict knows.

All watchers also form one circular list in order of arrival, for listing them: two pointers each, where a dict
would take 42 bytes.
"""

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NoReturn

from purgatory_async.timing._entry import TimerNode

__all__ = ["SharedList", "WatchTable", "Watcher", "distinct_keys", "identity", "in_turn", "keys_of"]


identity: Final = object.__eq__
"""What a watcher's ``__eq__`` must be."""


class Watcher(TimerNode):
    """What a `WatchTable` holds: its keys and its neighbours in order of arrival."""

    __slots__ = ("_keys", "_newer", "_older")

    # A tuple of them; a sole key that is no tuple itself is stored bare; who entered a shared list with the very tuple
    # that the list is of has the list here, and need not look for it when it leaves.
    _keys: Any
    _older: "Watcher"
    _newer: "Watcher"


class SharedList(dict[Watcher, None]):
    """The watchers of some keys, one list for all of them, while each of the watchers watches all of them and no other.

    Args:
        of: The keys; `NO_KEYS` once the table has given the list up.
        first: Watches them already.
    """

    __slots__ = ("of", "width")

    of: tuple[Hashable, ...]
    width: int
    """How many keys."""

    def __init__(self, of: tuple[Hashable, ...], *first: Watcher) -> None:
        super().__init__(dict.fromkeys(first))
        self.of = of
        self.width = len(of)


NO_KEYS: Final[tuple[Hashable, ...]] = (object(),)
"""What no caller has: an empty tuple would be anybody's."""


class WatchTable:
    """Watch key to watchers, in both directions, with exact counts.

    Base of the purgatory's core, which writes the sole-watcher path out where it is hot.
    """

    __slots__ = ("_arrivals", "_last_shared", "_more_pairs", "_more_pending", "_watchers")

    def __init__(self) -> None:
        # A value is the sole watcher itself, or a list that the key shares with others, or a dict of its own.
        self._watchers: dict[Hashable, Watcher | dict[Watcher, None]] = {}
        self._more_pending = 0  # operations beyond the number of keys; may be negative
        self._more_pairs = 0  # (operation, key) pairs beyond the number of keys
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
        return len(self._watchers)

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
            if found is not None:
                yield key, len(found) if isinstance(found, dict) else 1

    def _watchers_of(self, key: Hashable) -> list[Watcher]:
        """A snapshot of a key's watchers, oldest first. O(watchers of the key)."""
        found = self._watchers.get(key)
        if found is None:
            return []
        return list(found) if isinstance(found, dict) else [found]

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
        if type(found) is not SharedList or (found.of is not keys and found.of != keys):
            self._enter(watcher, keys)
        else:
            if type(watcher).__eq__ is not identity:
                _refuse_equal(watcher)
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
        if not isinstance(found, Watcher):
            return None
        if keys != keys_of(found):
            return None
        if any(watchers[key] is not found for key in keys):
            return None
        if type(found).__eq__ is not identity:
            _refuse_equal(found)
        shared = SharedList(keys, found)
        for key in keys:
            watchers[key] = shared
        return shared

    def _enter(self, watcher: Watcher, keys: tuple[Hashable, ...]) -> None:
        """Put a watcher on the list of each key, or on none."""
        watchers = self._watchers
        known = len(watchers)
        entered = 0
        try:
            for key in keys:
                found = watchers.get(key)
                if found is None:
                    watchers[key] = watcher
                else:
                    if type(watcher).__eq__ is not identity:
                        _refuse_equal(watcher)
                    if type(found) is SharedList:
                        self._unshare(found)
                        found = watchers[key]
                    if type(found) is dict:
                        found[watcher] = None
                    else:
                        if type(found).__eq__ is not identity:
                            _refuse_equal(found)
                        watchers[key] = {found: None, watcher: None}  # type: ignore[dict-item]  # not a dict: sole
                entered += 1
        except BaseException:
            self._leave_each(keys[:entered], watcher)
            raise
        new = len(watchers) - known
        self._more_pending += 1 - new
        self._more_pairs += len(keys) - new

    def _remove(self, watcher: Watcher) -> None:
        """Leave every list at once. O(keys of the watcher)."""
        self._leave(watcher)
        watcher._keys = None
        older, newer = watcher._older, watcher._newer
        older._newer = newer
        newer._older = older
        watcher._older = watcher._newer = None  # type: ignore[assignment]  # keep no neighbour alive

    def _leave(self, watcher: Watcher) -> None:
        watchers = self._watchers
        keys = keys_of(watcher)
        shared = watchers[keys[0]]
        if type(shared) is SharedList:
            del shared[watcher]
            self._more_pending -= 1
            self._more_pairs -= shared.width
            if not shared:
                self._give_up(shared)
            return
        known = len(watchers)
        self._leave_each(keys, watcher)
        gone = known - len(watchers)
        self._more_pending += gone - 1
        self._more_pairs += gone - len(keys)

    def _leave_each(self, keys: tuple[Hashable, ...], watcher: Watcher) -> None:
        """Leave the lists of keys, each with a list of its own."""
        watchers = self._watchers
        for key in keys:
            found = watchers[key]
            if type(found) is dict:
                del found[watcher]
            if found is watcher or not found:
                del watchers[key]

    def _give_up(self, empty: SharedList) -> None:
        """Forget the keys of a shared list that everybody has left."""
        for key in empty.of:
            del self._watchers[key]
        self._more_pending += empty.width
        self._more_pairs += empty.width
        empty.of = NO_KEYS

    def _unshare(self, shared: SharedList) -> None:
        """Give each key a list of its own. O(watchers * keys), and once in the life of each watcher."""
        keys = shared.of
        for key in keys:
            self._watchers[key] = dict(shared)
        for watcher in shared:
            if watcher._keys is shared:
                watcher._keys = keys
        shared.of = NO_KEYS

    def _drop_sentinel(self) -> None:
        """Cut the cycle that the sentinel of an empty list is; nothing can be added any more."""
        self._arrivals._older = self._arrivals._newer = None  # type: ignore[assignment]

    def check_invariants(self) -> None:
        """Assert that both directions and the counts agree. O(watched), for tests."""
        arrived = list(self._arrived())
        pairs = 0
        for key, found in self._watchers.items():
            watchers = self._watchers_of(key)
            if type(found) is SharedList:
                sharing = [self._watchers[other] is found for other in found.of]
                assert all(sharing), f"key {key!r} has a list that is not that of all of {found.of!r}"
            assert watchers, f"key {key!r} is kept without a watcher"
            for watcher in watchers:
                keys = keys_of(watcher)
                assert key in keys, f"{watcher!r} is listed under {key!r}, which is not one of its keys"
                if type(found) is SharedList:
                    assert keys == found.of, f"{watcher!r} is on the list of {found.of!r}"
            pairs += len(watchers)
        assert pairs == self.watched, f"{pairs} pairs are listed, {self.watched} counted"
        assert len(arrived) == self.pending, f"{len(arrived)} operations are listed, {self.pending} counted"
        assert len(set(map(id, arrived))) == len(arrived), "an operation is listed twice"


def keys_of(watcher: Watcher) -> tuple[Hashable, ...]:
    """What a watcher watches, as a tuple."""
    keys = watcher._keys
    if type(keys) is SharedList:
        return keys.of
    return keys if type(keys) is tuple else (keys,)


def in_turn(watchers: dict[Watcher, None]) -> Iterator[Watcher]:
    """A key's watchers, oldest first, as they are asked for; those already given may leave, nobody may come.

    A snapshot would cost as much as all of them, for a caller who mostly needs the first. O(watchers taken).
    """
    taken: list[Watcher] = []
    size = 1
    while True:
        staying = sum(watcher in watchers for watcher in taken)
        further = list(islice(watchers, staying, staying + size))
        if not further:
            return
        yield from further
        taken += further
        size *= 2


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


def _refuse_equal(watcher: object) -> NoReturn:
    """Refuse a watcher that may equal another one: a list would take the two for one, and lose one."""
    raise TypeError(
        f"{type(watcher).__name__} must not define __eq__: two operations are two, whatever they hold; for a "
        "dataclass use @dataclass(eq=False)"
    )
