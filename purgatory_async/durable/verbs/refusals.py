"""Why the state has refused an entry, as the problem that answers its request."""

from purgatory_async import PurgatoryFull
from purgatory_async.cluster import LogError
from purgatory_async.cluster.writer import MAX_WAITING, MAX_WAITING_BYTES
from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.items import Queue
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES
from purgatory_async.durable.fold.promises import end_item
from purgatory_async.durable.fold.results import Refused

Proposal = (
    entries.SubmitOperation
    | entries.SignalKey
    | entries.SignalKeys
    | entries.PutItem
    | entries.PutItems
    | entries.SetQueue
    | entries.AnyAnswer
    | entries.RescheduleOperation
)
"""Entries that the state may refuse beyond a limit, or because of an Idempotency-Key."""


def problem_of(refused: Refused, entry: Proposal, fold: Fold) -> problems.Problem:
    """Return the problem of a refused entry; its figures are of the present state. O(items of the entry)."""
    limits = fold.shared.limits
    if refused.why == "over-budget" or isinstance(entry, entries.SetQueue):
        return problems.over_budget("max_bytes", fold.shared.kept.used, limits.max_kept)
    if refused.why == "idempotency-mismatch":
        return problems.idempotency_mismatch(str(entry.idem))
    if isinstance(entry, entries.AnyAnswer | entries.RescheduleOperation):
        return (forgotten if refused.why == "forgotten" else _unknown)(entry.id, fold)
    if refused.why == "limited-bytes" and isinstance(entry.quota, int):
        used = fold.shared.kept.pinned_of.get(entry.owner or "", 0)
        return problems.limited("max-bytes", entry.quota, used, rule=f"max-bytes={entry.quota}")
    if isinstance(entry, entries.PutItem | entries.PutItems):
        count = len(entry.items) if isinstance(entry, entries.PutItems) else 1
        queue = fold.queues.by_name.get(entry.queue) or Queue(entry.queue)
        return problems.queue_full(queue.name, *queue.limit_for(count, limits))
    return _of_submission(refused, entry, fold)


def _of_submission(refused: Refused, entry: Proposal, fold: Fold) -> problems.Problem:
    if isinstance(entry, entries.SubmitOperation):
        match refused.why:
            case "duplicate-id":
                return problems.duplicate_id(entry.id)
            case "forgotten":
                return forgotten(entry.id, fold)
            case "queue-full":
                return _full(entry, fold)
            case _:
                pass
    return problems.overloaded("operations", fold.shared.limits.max_pending)


def _full(entry: entries.SubmitOperation, fold: Fold) -> problems.Problem:
    """Return the problem of a submission that a full queue refuses."""
    names = [name for name in (entry.announce, entry.deliver) if isinstance(name, str)]
    queues = [fold.queues.by_name.get(name) or Queue(name) for name in names]
    limits, size = fold.shared.limits, len(end_item(entry.id, "completed")) + PIECE_BYTES
    queue = next((each for each in queues if not each.fits(1, size, limits)), queues[0])
    return problems.queue_full(queue.name, *queue.limit_for(1, limits))


def forgotten(operation_id: str, fold: Fold) -> problems.Problem:
    """Return the problem of an operation that is forgotten."""
    limits = fold.shared.limits
    return problems.forgotten(operation_id, limits.retention_us / 1e6, limits.max_kept)


def _unknown(operation_id: str, _: Fold) -> problems.Problem:
    return problems.unknown_operation(operation_id)


def over_pending(most: int, pending: int) -> problems.Problem:
    """Return the problem of an owner that has as many operations and one-shot waits pending as it may have."""
    return problems.limited("max-pending", most, pending, rule=f"max-pending={most}")


def problem_for(error: problems.Problem | LogError | PurgatoryFull) -> problems.Problem:
    """Return the problem of a call that the state, or its store, has refused."""
    match error:
        case problems.Problem():
            return error
        case LogError():
            return problems.store_unavailable(str(error))
        case _:
            most = f"changes, or {MAX_WAITING_BYTES} bytes of them, for the store"
            return problems.overloaded(most, MAX_WAITING)
