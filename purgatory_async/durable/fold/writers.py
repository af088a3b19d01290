"""The writers of the log, and which of their entries count.

A writer may append an entry again, as long as it does not know what became of it. It numbers its entries, so the fold
applies each once: a number that is not above the writer's last is a repetition.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from purgatory_async import TimerHandle
from purgatory_async.durable.fold.entries import Alive, Entry
from purgatory_async.durable.fold.shared import FOREVER, SECOND, Shared

FORGOTTEN_AFTER: Final = 600 * SECOND
"""Log time without an entry after which a writer is forgotten."""
SILENT_AFTER: Final = 6 * SECOND
"""Log time without an entry after which a writer's takers leave their lines."""


class Writer(Struct):
    """A writer: its last number, and where and when its last entry came, repetitions included."""

    number: int
    position: int
    at_us: int
    silence: TimerHandle | None = None


class Writers:
    """All writers that appended something lately, the most silent one first.

    Args:
        shared: The step and its timer.
        on_silent: Called with a writer that has takers and was silent for too long.
    """

    def __init__(self, shared: Shared, on_silent: Callable[[str], None]) -> None:
        self.known: Final[OrderedDict[str, Writer]] = OrderedDict()
        self._shared: Final = shared
        self._on_silent: Final = on_silent

    def refusal(self, name: str, entry: Entry) -> Literal["repeated", "unknown-writer"] | None:
        """Note a writer's entry; return why it must be dropped, None if it counts. O(1)."""
        shared = self._shared
        writer = self.known.get(name)
        if writer is None:
            if entry.number != 1 or not isinstance(entry, Alive):
                return "unknown-writer"
            self.known[name] = Writer(1, shared.position, shared.clock.now_us)
            return None
        writer.position = shared.position
        writer.at_us = shared.clock.now_us
        self.known.move_to_end(name)
        if entry.number <= writer.number:
            return "repeated"
        writer.number = entry.number
        return None

    def listen(self, name: str) -> None:
        """Wait for a known writer's silence, from its last entry on. O(1)."""
        writer = self.known[name]
        seconds = self._shared.seconds_until(writer.at_us + SILENT_AFTER)
        if writer.silence is None or not writer.silence.reschedule(seconds):
            writer.silence = self._shared.timer.call_later(seconds, self._on_silent, name)

    def forget(self, whole_us: int) -> int:
        """Forget the writers that have appended nothing for long enough; as `Operations.forget`. O(forgotten)."""
        while self.known:
            name, writer = next(iter(self.known.items()))
            if writer.at_us + FORGOTTEN_AFTER > whole_us:
                return writer.at_us + FORGOTTEN_AFTER
            del self.known[name]
        return FOREVER
