"""How an operation can end."""

from enum import StrEnum

__all__ = ["Outcome"]


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
