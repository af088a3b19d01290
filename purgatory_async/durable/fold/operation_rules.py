"""The rules for operations: which submissions and ends they refuse, and what a repeated request is answered."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.kept_bytes import size_of_operation
from purgatory_async.durable.fold.operations import Operations
from purgatory_async.durable.fold.replays import Repeatable, Replays
from purgatory_async.durable.fold.results import OVERLOADED, Ended, Refused, Result, Submitted
from purgatory_async.durable.fold.shared import Shared


class OperationRules:
    """Applies submissions and ends.

    An Idempotency-Key means one request of its owner, whatever it asked for: an operation has it as long as the
    operation is known, any other answer is among the replays.

    Args:
        operations, replays, shared: The parts of the fold.
    """

    def __init__(self, operations: Operations, replays: Replays, shared: Shared) -> None:
        self._operations: Final = operations
        self._replays: Final = replays
        self._shared: Final = shared
        self.by_kind: Final[dict[type[kinds.Entry], Callable[[Any], Result]]] = {
            kinds.SubmitOperation: self._submit,
            kinds.EndOperation: self._end,
        }

    def _submit(self, entry: kinds.SubmitOperation) -> Result:
        operations = self._operations
        if isinstance(entry.idem, str):
            key = (entry.owner, entry.idem)
            known = operations.by_idem.get(key)
            if known is not None or key in self._replays:
                if known is None or operations.idem_of[known.id][1] != entry.digest:
                    return Refused("idempotency-mismatch")
                return Submitted(known.id, known.state, replayed=True)
        refused = self._refused_submission(entry)
        if refused is not None:
            return refused
        operation = operations.submit(entry)
        if entry.timeout_us == 0:
            clock = self._shared.clock
            clock.advance_to(clock.now_us)
        return Submitted(operation.id, operation.state)

    def _refused_submission(self, entry: kinds.SubmitOperation) -> Refused | None:
        operations = self._operations
        if entry.id in operations.by_id:
            return Refused("duplicate-id")
        if operations.purgatory.pending >= self._shared.limits.max_pending:
            return OVERLOADED
        if entry.most is not UNSET and operations.pending_of.get(entry.owner or "", 0) >= entry.most:
            return Refused("limited")
        if self._shared.fits_any(entry):
            return None
        size = size_of_operation(entry)
        return self._shared.refusal(entry, size, size)

    def _end(self, entry: kinds.EndOperation) -> Result:
        operation = self._operations.by_id.get(entry.id)
        if operation is not None and entry.owner not in {None, operation.owner}:
            return Refused("unknown-operation")
        if operation is None:
            return Refused("forgotten" if entry.id in self._operations.forgotten else "unknown-operation")
        if operation.outcome is not None:
            return Refused("already-ended")
        self._operations.end(operation, entry.how, entry.result)
        return Ended(entry.how)

    def replayed(self, entry: Repeatable) -> Result | None:
        """Return an earlier answer to an entry with its Idempotency-Key, or a refusal; None for a new one. O(1)."""
        if not isinstance(entry.idem, str):
            return None
        key = (entry.owner, entry.idem)
        known = self._replays.get(key)
        if known is None:
            return Refused("idempotency-mismatch") if key in self._operations.by_idem else None
        if known.digest != entry.digest:
            return Refused("idempotency-mismatch")
        return msgspec.structs.replace(known.answer, replayed=True)
