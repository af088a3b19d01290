"""What designs without watch lists of their own share: operations in a dict by key, which they leave at once.

Each operation type sets all fields itself instead of calling up: what is compared is written as its users write it.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from bench.designs.interface import Design

__all__ = ["KeyedDesign", "PlainOperation"]


class PlainOperation:
    """An operation that knows whether it is done, and what its users override."""

    __slots__ = ("done", "timeout_ms")

    done: bool
    timeout_ms: int

    @property
    def ended(self) -> bool:
        """Whether it completed or expired."""
        return self.done

    def try_complete(self) -> bool:
        """To override; not yet."""
        return False

    def on_complete(self) -> None:
        """To override."""

    def on_expiration(self) -> None:
        """To override."""


class KeyedDesign(Design):
    """A dict of dicts; operations have ``keys`` and ``home`` while they are in it."""

    _watchers: dict[Hashable, dict[Any, None]]
    _pending: int

    def check(self, key: Hashable) -> int:
        """Ask the key's operations in order."""
        found = self._watchers.get(key)
        if found is None:
            return 0
        return sum(not waiting.done and waiting.try_complete() for waiting in tuple(found))

    @property
    def pending(self) -> int:
        """What has not ended."""
        return self._pending

    @property
    def kept(self) -> int:
        """Entries in the dict."""
        return sum(map(len, self._watchers.values()))

    def let_go(self, waiting: Any) -> None:
        """Take an operation that has ended out of the dict."""
        self._pending -= 1
        for key in waiting.keys:
            found = self._watchers.get(key)
            if found is not None and found.pop(waiting, waiting) is None and not found:
                del self._watchers[key]

    def _enter(self, waiting: Any, keys: Sequence[Hashable]) -> None:
        waiting.home = self
        waiting.keys = keys
        for key in keys:
            self._watchers.setdefault(key, {})[waiting] = None
        self._pending += 1
