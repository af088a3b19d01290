"""Recommends a timeout for the operations of each prefix of a key, since one for all suits none of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from purgatory_async.pipeline.whatif.page import recommend

SHOWN: Final = 20  # prefixes on the page and in the summary; the table has all

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Operations with a key of a prefix, and how they end under each setting."""

    name: str | None  # None for keys without one
    operations: int
    recorded_timeout: float | None  # the longest that they had, in seconds; None if none had one
    lines: Sequence[Line]  # one for each setting
    chosen: Line | None = None  # the recommended one; None if no timeout makes a difference
    why: str = ""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Its rows of the table."""
        for line in self.lines:
            yield {**self._named(), **line, "recommended": line is self.chosen}

    def summary(self) -> dict[str, Any]:
        """Its part of the command's output: what is recommended, and how operations would end."""
        chosen = self.chosen or {}
        figures = {name: chosen.get(name) for name in ("timeout", "completed", "expired", "guessed")}
        return {**self._named(), **figures, "why": self.why}

    def _named(self) -> dict[str, Any]:
        return {
            "prefix": self.name,
            "operations": self.operations,
            "recorded_timeout": self.recorded_timeout,
        }


def recommend_each(prefixes: Iterable[Prefix], recommended: Line) -> list[Prefix]:
    """Choose a timeout for each prefix, and say why; those with most operations first.

    They share a timer, so each has the tick and wheel that are ``recommended`` for all operations.
    """
    found = []
    for each in prefixes:
        lines = [
            line
            for line in each.lines
            if all(line[name] == recommended[name] for name in ("tick", "wheel_size"))
        ]
        choice = recommend(lines)
        chosen = next((line for line in lines if line["timeout"] == choice["timeout"]), None)
        why = choice["why"]
        if each.recorded_timeout is None:
            chosen, why = None, "None of these operations had a timeout, so none makes a difference."
        found.append(Prefix(each.name, each.operations, each.recorded_timeout, each.lines, chosen, why))
    return sorted(found, key=lambda each: (-each.operations, each.name is not None, each.name or ""))
