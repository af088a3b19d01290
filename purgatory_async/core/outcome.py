"""The states of an operation, and what moves it from one to the next."""

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where an operation is until it ends."""

    NEW = "new"
    CHECKING = "being checked"
    PENDING = "pending"


class Outcome(StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CLOSED = "closed"

    def _end(self, _operation: object, _outcome: "Outcome", _result: object = None) -> bool:
        """Do nothing: an ended operation stays ended."""
        return False

    def _reschedule(self, _operation: object, _timeout: float | None) -> bool:
        """Do nothing: an ended operation has no deadline."""
        return False


# Python 3.11 needs 50 ns to look up an enum's member; a global is free.
COMPLETED: Final = Outcome.COMPLETED
EXPIRED: Final = Outcome.EXPIRED
CANCELLED: Final = Outcome.CANCELLED
FAILED: Final = Outcome.FAILED
RUNS_HOOKS: Final = (COMPLETED, EXPIRED)
"""How an operation ends whose hooks run."""

_VERBS: Final = {
    "force_complete": Outcome.COMPLETED,
    "fail": Outcome.FAILED,
    "cancel": Outcome.CANCELLED,
}
TRANSITIONS: Final[dict[Phase, dict[str, Phase | Outcome]]] = {
    Phase.NEW: {"watch": Phase.CHECKING, **_VERBS},
    Phase.CHECKING: {"admit": Phase.PENDING, "refuse": Phase.NEW, **_VERBS},
    Phase.PENDING: {**_VERBS, "deadline": Outcome.EXPIRED, "close": Outcome.CLOSED},
}
"""Each phase's events and where they lead; any other event changes nothing, and no event leaves an `Outcome`."""
