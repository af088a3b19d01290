"""What each operation's end should be, one at a time and signal by signal: no shards, no batches, no columns."""

from typing import NamedTuple

LATEST_NS = 2**63 - 1


class Operation(NamedTuple):
    op_id: str
    keys: tuple[str, ...]
    needed: int
    submit_ns: int
    timeout_ns: int

    @property
    def deadline_ns(self) -> int:
        return min(self.submit_ns + self.timeout_ns, LATEST_NS)


class Signal(NamedTuple):
    key: str
    at_ns: int
    n: int


class Outcome(NamedTuple):
    op_id: str
    outcome: str
    submit_ns: int
    deadline_ns: int
    decided_ns: int


def outcome_of(operation: Operation, signals: list[Signal]) -> Outcome:
    """By all signals that there ever are."""
    op_id, keys, needed, submit_ns, _ = operation
    deadline_ns = operation.deadline_ns
    if needed <= 0:
        return Outcome(op_id, "completed", submit_ns, deadline_ns, submit_ns)
    amount = 0
    for key, at_ns, n in sorted(signals, key=lambda signal: signal.at_ns):
        if key in keys and submit_ns < at_ns < deadline_ns:
            amount += n
            if amount >= needed:
                return Outcome(op_id, "completed", submit_ns, deadline_ns, at_ns)
    return Outcome(op_id, "expired", submit_ns, deadline_ns, deadline_ns)


def outcomes_up_to(watermark_ns: int, operations: list[Operation], signals: list[Signal]) -> list[Outcome]:
    """Those that no signal still to be read could change."""
    ends = [(operation, outcome_of(operation, signals)) for operation in operations]
    return sorted(
        end
        for operation, end in ends
        if operation.needed <= 0
        or (end.outcome == "completed" and end.decided_ns < watermark_ns)
        or (end.outcome == "expired" and end.deadline_ns <= watermark_ns)
    )
