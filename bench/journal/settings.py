"""How much of the journal is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions, sized

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

    records: int = sized(10_000, 200)
    operations: int = sized(20_000, 1_000)
    commits: int = sized(500, 5)
    clients: int = sized(100, 10)
    segment_bytes: int = sized(4 * 1024 * 1024, 65_536)
    rounds: int = sized(5, 1)
    heavy_rounds: int = sized(3, 1)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"{self.records:,} records of each kind; {self.operations:,} operations, three records each; "
            f"{self.commits:,} commits of each of {self.clients:,} clients"
        )
