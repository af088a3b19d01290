"""Lists of watchers: what stands for a key in a `WatchTable`."""

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any, Final, NoReturn

from purgatory_async.timing._entry import TimerNode

__all__ = ["NO_KEYS", "SharedList", "Watcher", "identity", "in_turn", "is_vacant", "keys_of", "refuse_equal"]


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
    """The watchers of some keys, one list for all of them, while each of the watchers watches all of them.

    None watches another key, unless a comparison raised in the middle of sharing or parting: then some of the keys
    have the list, the others have lists of their own.

    Args:
        of: The keys that have it; `NO_KEYS` once none does.
        first: Watches them already.
    """

    __slots__ = ("of", "width")

    of: tuple[Hashable, ...]
    width: int
    """How many keys."""

    def __init__(self, of: tuple[Hashable, ...], *first: Watcher) -> None:
        super().__init__(dict.fromkeys(first))
        self.now_of(of)

    def now_of(self, keys: tuple[Hashable, ...]) -> None:
        """Be the list of these keys from now on."""
        self.of = keys or NO_KEYS
        self.width = len(keys)


NO_KEYS: Final[tuple[Hashable, ...]] = (object(),)
"""Keys that no caller has: of a watcher that has left, and of a list that no key has."""


def is_vacant(found: Watcher | dict[Watcher, None]) -> bool:
    """Whether a key's entry is only kept because the key could not be deleted."""
    return not found if isinstance(found, dict) else found._keys is NO_KEYS


def keys_of(watcher: Watcher) -> tuple[Hashable, ...]:
    """What a watcher watches, as a tuple."""
    keys = watcher._keys
    if type(keys) is SharedList:
        return keys.of
    return keys if type(keys) is tuple else (keys,)


def in_turn(watchers: dict[Watcher, None]) -> Iterator[Watcher]:
    """A key's watchers, oldest first, as they are asked for; those already given may leave, nobody may come.

    A snapshot would cost as much as all of them, for a caller who mostly needs the first.
    """
    taken: list[Watcher] = []
    size, staying = 1, 0
    while further := list(islice(watchers, staying, staying + size)):
        yield from further
        taken += further
        staying = sum(watcher in watchers for watcher in taken)
        size *= 2


def refuse_equal(watcher: object) -> NoReturn:
    """Refuse a watcher that may equal another one: a list would take the two for one, and lose one."""
    raise TypeError(
        f"{type(watcher).__name__} must not define __eq__: two operations are two, whatever they hold; for a "
        "dataclass use @dataclass(eq=False)"
    )
