"""Why the state has refused an entry, as the problem that answers its request."""

from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.items import Queue
from purgatory_async.durable.fold.results import Refused
from purgatory_async.service.contract import problems

Proposal = (
    entries.SubmitOperation
    | entries.SignalKey
    | entries.SignalKeys
    | entries.PutItem
    | entries.PutItems
    | entries.SetQueue
)
"""Entries that the state may refuse beyond a limit, or because of an Idempotency-Key."""


def problem_of(refused: Refused, entry: Proposal, fold: Fold) -> problems.Problem:
    """Return the problem of a refused entry; its figures are of the present state. O(items of the entry)."""
    limits = fold.shared.limits
    if refused.why == "over-budget" or isinstance(entry, entries.SetQueue):
        return problems.over_budget("max_bytes", fold.shared.kept.used, limits.max_kept)
    if refused.why == "idempotency-mismatch":
        return problems.idempotency_mismatch(str(entry.idem))
    if refused.why == "limited-bytes" and isinstance(entry.quota, int):
        used = fold.shared.kept.pinned_of.get(entry.owner or "", 0)
        return problems.limited("max-bytes", entry.quota, used, rule=f"max-bytes={entry.quota}")
    if isinstance(entry, entries.PutItem | entries.PutItems):
        count = len(entry.items) if isinstance(entry, entries.PutItems) else 1
        queue = fold.queues.by_name.get(entry.queue) or Queue(entry.queue)
        return problems.queue_full(queue.name, *queue.limit_for(count, limits))
    if isinstance(entry, entries.SubmitOperation) and refused.why == "duplicate-id":
        return problems.duplicate_id(entry.id)
    return problems.overloaded("operations", limits.max_pending)


def over_pending(most: int, pending: int) -> problems.Problem:
    """Return the problem of an owner that has as many operations and one-shot waits pending as it may have."""
    return problems.limited("max-pending", most, pending, rule=f"max-pending={most}")
