"""Lists of watchers, the values of a `WatchTable`."""

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any, Final

from purgatory_async.native import also_compiled
from purgatory_async.timing._entry import TimerNode


@also_compiled
class Watcher(TimerNode):
    """Item of a `WatchTable`: its keys and its neighbours in order of arrival."""

    __slots__ = ("_keys", "_newer", "_older")

    # A tuple; or a sole key that is no tuple itself; or the shared list, if it was entered with the list's own tuple
    # (leaving then needs no lookup).
    _keys: Any
    _older: "Watcher"
    _newer: "Watcher"


@also_compiled
class SharedList(dict[Watcher, None]):
    """One list for several keys, while all its watchers watch exactly these keys.

    If a comparison raises while keys are joined or split, only some of the keys have the list.

    Args:
        of: The keys that have it; `NO_KEYS` once none does.
        first: Its first watchers.
    """

    __slots__ = ("of", "width")

    of: tuple[Hashable, ...]
    width: int
    """Number of keys."""

    def __init__(self, of: tuple[Hashable, ...], *first: Watcher) -> None:
        super().__init__(dict.fromkeys(first))
        self.now_of(of)

    def now_of(self, keys: tuple[Hashable, ...]) -> None:
        """Become the list of these keys."""
        self.of = keys or NO_KEYS
        self.width = len(keys)


NO_KEYS: Final[tuple[Hashable, ...]] = (object(),)
"""Keys that no caller has: for a watcher that left, and for a list without keys."""


def is_vacant(found: Watcher | dict[Watcher, None]) -> bool:
    """Whether a key has no watcher, but could not be deleted."""
    return not found if isinstance(found, dict) else found._keys is NO_KEYS


def keys_of(watcher: Watcher) -> tuple[Hashable, ...]:
    """A watcher's keys as a tuple."""
    keys = watcher._keys
    if type(keys) is SharedList:
        return keys.of
    return keys if type(keys) is tuple else (keys,)  # pyright: ignore[reportUnknownVariableType]


def in_turn(watchers: dict[Watcher, None]) -> Iterator[Watcher]:
    """Yield a key's watchers lazily, oldest first; yielded ones may leave, none may join.

    A snapshot would be O(watchers), and most callers need only the first.
    """
    taken: list[Watcher] = []
    size, staying = 1, 0
    while further := list(islice(watchers, staying, staying + size)):
        yield from further
        taken += further
        staying = sum(watcher in watchers for watcher in taken)
        size *= 2


def refuse_equal(watcher: object) -> None:
    """Refuse a watcher that may equal another: a list would lose one of the two."""
    if type(watcher).__eq__ is not object.__eq__:
        raise TypeError(
            f"{type(watcher).__name__} must not define __eq__: operations are compared by identity; for a "
            "dataclass use @dataclass(eq=False)"
        )
