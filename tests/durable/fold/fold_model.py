"""What the fold must give, said naively: plain lists, and a search through everything for what is due next.

Nothing here is shared with the fold but the words of its entries, results and limits.
"""

import re
from types import SimpleNamespace

from msgspec import UNSET

from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.shared import Limits
from tests.durable.fold.budget_model import BudgetModel, size_of
from tests.durable.fold.promise_model import PromiseModel
from tests.durable.fold.queue_model import MEMORY, OPERATION, WRITER, QueueModel, up

SILENT, FORGOTTEN = 6_000_000, 600_000_000


def rule_of(entry):
    """The name of the rule for an entry: ``submit_operation`` of SubmitOperation."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(entry).__name__).lower()


class Model(BudgetModel, PromiseModel, QueueModel):
    """The state after the entries applied so far; `apply` returns the result and the facts of the effects."""

    def __init__(self):
        super().__init__()
        self.limits = Limits()
        self.now = self.position = 0
        self.operations, self.ends, self.forgotten, self.answers = [], [], {}, {}
        self.writers = {}
        self.signals = []  # all that ever were
        self.facts = []

    def apply(self, position, at_us, entry):
        self.position, self.facts = position, []
        self.let_time_pass(at_us)
        self.now = at_us
        dropped = self.dropped(entry)
        result = results.Dropped(dropped) if dropped else getattr(self, rule_of(entry))(entry)
        self.let_time_pass(at_us)
        self.make_room()
        return result, self.facts

    # Time.

    def let_time_pass(self, at_us):
        while True:
            due = [each for each in self.everything_due() if each[0] <= at_us]
            if not due:
                break
            when, _, _, _, happen, subject = min(due, key=lambda each: each[:4])
            self.now = max(self.now, when)
            happen(subject)

    def everything_due(self):
        keep = self.limits.retention_us
        for one in self.operations:
            if one.state == "pending" and one.deadline is not None:
                yield self.due_of(one), one.moved, OPERATION, 0, self.expire, one
            elif one.state != "pending" and one.keep is UNSET:
                yield up(one.ended + keep), 0, MEMORY, self.ends.index(one), self.forget, one
        yield from self.due_of_promises()
        yield from self.due_of_queues()
        yield from self.due_of_keys()
        yield from self.due_of_writers()
        for memory in (self.forgotten, self.ended_leases):
            for name, at in memory.items():
                yield up(at + keep), 0, MEMORY, 0, memory.pop, name
        for key, answer in self.answers.items():
            yield up(answer.at + keep), 0, MEMORY, 0, self.answers.pop, key

    def due_of_writers(self):
        for name, one in self.writers.items():
            if any(taker.writer == name for taker in self.takers):
                yield up(one.at + SILENT), one.position, WRITER, 0, self.silent, name
            yield up(one.at + FORGOTTEN), one.position, MEMORY, 0, self.writers.pop, name

    def expire(self, operation):
        self.end(operation, "expired", UNSET)
        self.tell_ends(operation)

    def forget(self, operation):
        self.operations.remove(operation)
        self.ends.remove(operation)
        self.forgotten[operation.id] = self.now

    def silent(self, writer):
        for taker in [taker for taker in self.takers if taker.writer == writer]:
            self.takers.remove(taker)
            self.facts.append(("TakerLeft", taker.lease_id, "silent"))

    # Parts of rules.

    def dropped(self, entry):
        if entry.writer is None:
            return None
        if entry.writer not in self.writers:
            if entry.number != 1 or not isinstance(entry, kinds.Alive):
                return "unknown-writer"
            self.writers[entry.writer] = SimpleNamespace(number=0)
        writer = self.writers[entry.writer]
        writer.at, writer.position = self.now, self.position
        if entry.number <= writer.number:
            return "repeated"
        writer.number = entry.number
        return None

    def end(self, operation, state, result):
        operation.state, operation.ended, operation.result = state, self.now, result
        self.facts.append(("OperationEnded", operation.id, state, self.now))
        if operation.keep is UNSET:
            self.ends.append(operation)

    def known_answer(self, entry):
        """The answer of an earlier entry with the same Idempotency-Key, or None."""
        if entry.idem is UNSET:
            return None
        operation = next((one for one in self.operations if one.idem == entry.idem), None)
        answer = self.answers.get(entry.idem)
        if isinstance(entry, kinds.SubmitOperation) and operation is not None:
            if operation.digest == entry.digest:
                return results.Submitted(operation.id, operation.state, True)
        elif (forgotten := self.forgotten_answer(entry)) is not None:
            return forgotten
        elif (
            not isinstance(entry, kinds.SubmitOperation)
            and answer is not None
            and answer.digest == entry.digest
        ):
            return answer.result
        taking = self.of_key([*self.takers, *self.leases], entry.idem)
        taken = operation is not None or answer is not None or taking
        return results.Refused("idempotency-mismatch") if taken else None

    def keep_answer(self, entry, first, replayed):
        if entry.idem is not UNSET:
            self.answers[entry.idem] = SimpleNamespace(digest=entry.digest, result=replayed, at=self.now)
        return first

    # The rules, by the names of the entries.

    def submit_operation(self, entry):
        answer = (self.attached(entry) if entry.attach else None) or self.known_answer(entry)
        if answer is not None:
            return answer
        earlier, gap = self.earlier(entry)
        refused = self.refused_submission(entry, earlier)
        if refused is not None:
            return results.Refused(refused)
        operation = self.new_operation(entry)
        self.forgotten.pop(entry.id, None)
        self.gone.pop(entry.id, None)
        self.operations.append(operation)
        self.facts.append(("OperationSubmitted", entry.id))
        if entry.announce is not UNSET:
            self.tell(entry.announce, self.submit_item(entry.id))
        operation.gap = gap
        for signal in earlier:
            if operation.state == "pending":
                operation.heard.append(signal)
                if self.fulfilled(operation):
                    self.end(operation, "completed", UNSET)
                    self.tell_ends(operation)
        deadline = operation.deadline
        if deadline is not None and deadline <= self.now and operation.state == "pending":
            self.expire(operation)
        return results.Submitted(entry.id, operation.state)

    def refused_submission(self, entry, earlier):
        """Why an operation cannot be added, or None."""
        if any(one.id == entry.id for one in self.operations):
            return "duplicate-id"
        if sum(one.state == "pending" for one in self.operations) >= self.limits.max_pending:
            return "overloaded"
        if self.full_queue(entry):
            return "queue-full"
        size = self.operation_size(self.new_operation(entry)) + self.growth_by_earlier(entry, earlier)
        if entry.announce is not UNSET:
            size += size_of(self.submit_item(entry.id), entry.announce)
        return None if self.fits(size) else "over-budget"

    def new_operation(self, entry):
        return SimpleNamespace(
            id=entry.id,
            keys=entry.keys,
            need=entry.need,
            deadline=self.deadline_of(entry),
            scheduled=self.now,
            position=self.position,
            moved=self.position,
            state="pending",
            heard=[],
            data=entry.data,
            idem=entry.idem,
            digest=entry.digest,
            keep=entry.keep_us,
            terms=self.terms_size(entry),
            reserved=self.reserved(entry),
            the_end=None,
            more=[],
            asked={
                "keys": entry.keys,
                "need": entry.need,
                "timeout": entry.timeout_us,
                "deadline": entry.until_us,
                "keep": entry.keep_us,
                "ask": entry.ask,
                "announce": entry.announce,
                "deliver": entry.deliver,
            },
        )

    def fulfilled(self, operation):
        if operation.need == "any":
            return bool(operation.heard)
        if operation.need == "all":
            return {signal.key for signal in operation.heard} == set(operation.keys)
        if operation.need.amount is not UNSET:
            return sum(signal.amount for signal in operation.heard) >= operation.need.amount
        return len({signal.voter for signal in operation.heard} - {UNSET}) >= operation.need.voters

    def signal_key(self, entry):
        answer = self.known_answer(entry)
        if answer is None and not self.room_for_signals([entry]):
            return results.Refused("over-budget")
        return self.signalled(entry, [entry]) if answer is None else answer

    def signal_keys(self, entry):
        answer = self.known_answer(entry)
        if answer is not None:
            return answer
        newest = self.signals[-1].index if self.signals else 0
        if self.position - newest < len(entry.signals):
            return results.Refused("no-room")
        if not self.room_for_signals(entry.signals):
            return results.Refused("over-budget")
        return self.signalled(entry, entry.signals)

    def signalled(self, entry, signals):
        first = self.position - len(signals) + 1
        completed = sum(self.happen(first + nth, signal) for nth, signal in enumerate(signals))
        answer = results.Signalled(self.position, completed)
        return self.keep_answer(entry, answer, results.Signalled(self.position, completed, True))

    def happen(self, index, signal):
        entry = SimpleNamespace(
            key=signal.key,
            amount=signal.amount,
            voter=signal.voter,
            value=signal.value,
            index=index,
            at=self.now,
        )
        self.signals.append(entry)
        self.keep_signal(entry)
        ended = []
        for operation in [*self.operations]:  # in the order of submission
            if operation.state == "pending" and entry.key in operation.keys:
                operation.heard.append(entry)
                if self.fulfilled(operation):
                    self.end(operation, "completed", UNSET)
                    ended.append(operation)
        self.tell_ends(*ended)
        self.facts.append(("KeySignalled", index, len(ended)))
        return len(ended)

    def end_operation(self, entry):
        operation = self.known(entry.id)
        if operation is None:
            return self.unknown(entry.id)
        if operation.state != "pending":
            return results.Refused("already-ended")
        self.end(operation, entry.how, entry.result if entry.how == "completed" else UNSET)
        self.tell_ends(operation)
        return results.Ended(entry.how)

    def tick(self, entry):
        return results.APPLIED

    alive = tick

    def set_limits(self, entry):
        for name in Limits.__struct_fields__:
            if getattr(entry, name) is not UNSET:
                setattr(self.limits, name, getattr(entry, name))
        for signals in self.by_key.values():
            self.cut_key(signals)
        return results.APPLIED

    def set_level(self, entry):
        return results.APPLIED
