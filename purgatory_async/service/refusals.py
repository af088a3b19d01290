"""What a request is answered with when the fold refuses its entry."""

from purgatory_async.service import problems
from purgatory_async.service.state.fold.entries import (
    PutItem,
    PutItems,
    SignalKey,
    SignalKeys,
    SubmitOperation,
)
from purgatory_async.service.state.fold.fold import Fold
from purgatory_async.service.state.fold.items import Queue
from purgatory_async.service.state.fold.results import Refused

__all__ = ["over_pending", "refusal"]


def refusal(
    refused: Refused, entry: SubmitOperation | SignalKey | SignalKeys | PutItem | PutItems, fold: Fold
) -> problems.Problem:
    """Return the problem of a refused entry."""
    if refused.why == "idempotency-mismatch":
        return problems.idempotency_mismatch(str(entry.idem))
    limits = fold.shared.limits
    if isinstance(entry, PutItem | PutItems):
        count = len(entry.items) if isinstance(entry, PutItems) else 1
        queue = fold.queues.by_name.get(entry.queue) or Queue(entry.queue)
        return problems.queue_full(queue.name, *queue.limit_for(count, limits))
    if isinstance(entry, SubmitOperation) and refused.why == "duplicate-id":
        return problems.duplicate_id(entry.id)
    return problems.overloaded("operations", limits.max_pending)


def over_pending(most: int, pending: int) -> problems.Problem:
    """Return the problem of an owner that has as many operations and one-shot waits pending as it may have."""
    return problems.limited("max-pending", most, pending, rule=f"max-pending={most}")
