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
