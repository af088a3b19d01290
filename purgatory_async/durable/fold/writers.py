"""The writers of the log: which of their entries count, and which writers are silent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatory_async.cluster.repetitions import FROM_THE_START, Repetitions
from purgatory_async.durable.fold.shared import SECOND, Shared

if TYPE_CHECKING:
    from purgatory_async import TimerHandle

SILENT_AFTER: Final = 6 * SECOND
"""Log time without an entry after which a writer's takers leave their lines."""


class Writers(Repetitions):
    """All writers that appended something lately, the most silent one first.

    Args:
        shared: The step and its timer.
        on_silent: Called with a writer that has takers and was silent for too long.
    """

    def __init__(self, shared: Shared, on_silent: Callable[[str], None]) -> None:
        super().__init__(FROM_THE_START)
        self._shared: Final = shared
        self._on_silent: Final = on_silent
        self._silences: Final[dict[str, TimerHandle]] = {}

    def listen(self, name: str) -> None:
        """Wait for a known writer's silence, from its last entry on. O(1)."""
        seconds = self._shared.seconds_until(self.known[name].at_us + SILENT_AFTER)
        silence = self._silences.get(name)
        if silence is None or not silence.reschedule(seconds):
            self._silences[name] = self._shared.timer.call_later(seconds, self._silent, name)

    def _silent(self, name: str) -> None:
        del self._silences[name]
        self._on_silent(name)
