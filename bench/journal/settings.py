"""How much of the journal is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["JournalSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings(Conditions):
    """How much of the journal is measured.

    Args:
        records: How many of each kind are encoded in a sample.
        operations: How many begin and end in a sample of what they cost, and while segments become full.
        commits: How many acknowledgements each client waits for.
        clients: How many wait for theirs at once.
        segment_bytes: From which size on a segment is full, where that is the subject.
    """

    records: int
    operations: int
    commits: int
    clients: int
    segment_bytes: int
