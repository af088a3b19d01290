"""The history that an index belongs to, as readers get and return it: ``EPOCH``, or on a log ``EPOCH.TERM``.

The epoch changes when a loss is noticed. The term shows what is not noticed: a backup was restored, and its log has
grown since; see `Terms`.
"""

import re
from dataclasses import dataclass
from typing import Final

from purgatory_async.durable.state import State

PATTERN: Final = r"[0-9A-Za-z]{1,40}(\.[0-9a-f]{1,40})?"
SINCE_PATTERN: Final = f"^(now|({PATTERN}-)?[0-9]{{1,16}})$"
"""The grammar of a place from which on signals count."""
SINCE_GRAMMAR: Final = "[0-9]{1,16}, the next of an answer (EPOCH-INDEX), or now"
_SINCE: Final = re.compile(f"now|(?:(?P<history>{PATTERN})-)?(?P<index>[0-9]{{1,16}})")


@dataclass(frozen=True, slots=True)
class Since:
    """Where a reader goes on: a history, None for the present one, and an index, None for the newest."""

    history: str | None
    index: int | None


def history_at(state: State, index: int) -> str:
    """Return the history of a state up to an index; equal at all workers. O(log terms)."""
    term = state.fold.terms.at(index)
    return f"{state.epoch}.{term}" if term else state.epoch


def continues(state: State, history: str, index: int) -> bool:
    """Whether a state shares the reader's history up to an index. A reader without a term is trusted. O(terms)."""
    epoch, _, term = history.partition(".")
    return epoch == state.epoch and (not term or state.fold.terms.reach(index, term))


def parse_since(text: str) -> Since | None:
    """Return a place; None if the text does not follow its grammar."""
    match = _SINCE.fullmatch(text)
    if match is None:
        return None
    return Since(match["history"], None if match["index"] is None else int(match["index"]))
