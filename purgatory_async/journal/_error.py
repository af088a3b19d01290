"""What a journal raises."""

from purgatory_async import PurgatoryError

__all__ = ["JournalError"]


class JournalError(PurgatoryError):
    """A journal cannot be kept here, or cannot promise that a record is safe."""
