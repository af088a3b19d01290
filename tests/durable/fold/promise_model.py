"""What few operations have, said naively: earlier signals, a time to be kept, queues that hear of them, answers."""

import json
from types import SimpleNamespace

from msgspec import UNSET, Raw

from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold import results
from tests.durable.fold.queue_model import MEMORY, PIECE, up

RESERVED = 8192


def text(document):
    """JSON as the fold writes it."""
    return Raw(json.dumps(document, separators=(",", ":")).encode())


def value(attached):
    """What JSON means, so that 1.0 is 1 and true is not; the numbers of the scripts are floats."""
    if attached is UNSET:
        return None
    return json.dumps(json.loads(bytes(attached), parse_int=float), sort_keys=True)


class PromiseModel:
    """Base of `fold_model.Model`, which has log time, operations and facts."""

    def __init__(self):
        super().__init__()
        self.gone = {}  # by id, until when

    # Time.

    def due_of_promises(self):
        for one in self.operations:
            if one.state != "pending" and one.keep is not UNSET:
                yield up(one.ended + one.keep), one.position, MEMORY, 0, self.forget_kept, one
        for name, gone in self.gone.items():
            yield up(gone.until), 0, MEMORY, 0, self.gone.pop, name

    def due_of(self, one):
        """When a pending operation expires; None for never. What was past at its scheduling is due at once."""
        if one.deadline is None:
            return None
        return one.deadline if one.deadline <= one.scheduled else up(one.deadline)

    def forget_kept(self, one):
        self.operations.remove(one)
        until = self.now + max(one.keep, self.limits.retention_us)
        self.gone[one.id] = SimpleNamespace(until=until, idem=one.idem, digest=one.digest)

    # Submissions.

    def deadline_of(self, entry):
        if entry.until_us is not UNSET:
            return entry.until_us
        return None if entry.timeout_us is None else self.now + entry.timeout_us

    def attached(self, entry):
        """The answer of an operation that has the id; None if it is free."""
        one = self.known(entry.id)
        if one is None:
            taken = entry.id in self.gone or entry.id in self.forgotten
            return results.Refused("forgotten") if taken else None
        names = ("keys", "need", "timeout", "deadline", "keep", "ask", "announce", "deliver")
        given = (entry.keys, entry.need, entry.timeout_us, entry.until_us)
        given += (entry.keep_us, entry.ask, entry.announce, entry.deliver)
        before = [one.asked[name] for name in names]
        differs = [name for name, old, new in zip(names, before, given, strict=True) if old != new]
        differs += ["data"] * (value(one.data) != value(entry.data))
        return results.Different(tuple(differs)) if differs else results.Attached(one.id, one.state)

    def known(self, operation_id):
        return next((one for one in self.operations if one.id == operation_id), None)

    def earlier(self, entry):
        """The kept signals that count at once, and whether one may be missing."""
        if entry.since is UNSET:
            return [], entry.gap
        newest = self.signals[-1].index if self.signals else 0
        if entry.since > newest:
            return [], True
        ever = [each for each in self.signals if each.key in entry.keys and each.index > entry.since]
        oldest = self.now // 1000 * 1000 - self.limits.keep_for_us
        kept = [each for each in ever if each in self.by_key.get(each.key, ()) and each.at > oldest]
        return kept, entry.gap or len(kept) < len(ever)

    def full_queue(self, entry):
        told = [(entry.announce, self.submit_item(entry.id))]
        told.append((entry.deliver, self.end_item(entry.id, "completed")))
        return any(queue is not UNSET and self.is_full(queue, [item]) for queue, item in told)

    def submit_item(self, operation_id):
        return text({"operation": operation_id, "event": "submitted"})

    def end_item(self, operation_id, state):
        return text({"operation": operation_id, "event": "ended", "state": state})

    def tell(self, queue, item, nth=0):
        told = self.new_item(queue, item, (self.now, self.position, nth))
        told.put = self.now
        self.hand_out(queue)

    def tell_ends(self, *ended):
        for one in ended:
            if one.asked["deliver"] is not UNSET:
                self.tell(one.asked["deliver"], self.end_item(one.id, one.state), one.position + 1000)

    def terms_size(self, entry):
        """The bytes of a question and of the names of queues."""
        texts = [entry.announce, entry.deliver]
        if entry.ask is not UNSET:
            texts += [entry.ask.title, entry.ask.text, *entry.ask.choices]
        return sum(len(each) for each in texts if each is not UNSET)

    def reserved(self, entry):
        """What is reserved for its answer, and for the item of its end."""
        size = 0 if entry.keep_us is UNSET else RESERVED
        if entry.deliver is not UNSET:
            size += PIECE + len(self.end_item(entry.id, "completed")) + len(entry.deliver)
        return size

    # Answers.

    def complete_operation(self, entry):
        return self.answered(entry, "completed", entry.result, UNSET)

    def fail_operation(self, entry):
        return self.answered(entry, "failed", UNSET, entry.error)

    def answer_operation(self, entry):
        comment = {} if entry.comment is UNSET else {"comment": entry.comment}
        return self.answered(entry, "completed", text({"choice": entry.choice, **comment}), UNSET)

    def answered(self, entry, state, result, error):
        answer = self.known_answer(entry)
        if answer is not None:
            return answer
        one = self.known(entry.id)
        if one is None:
            return self.unknown(entry.id)
        if entry.submitted not in {0, one.position}:
            return results.Refused("forgotten")
        the_end = (type(entry).__name__, entry.by, value(result), value(error))
        repeated = one.state != "pending"
        if repeated and one.the_end != the_end:
            return results.Refused("already-ended")
        if not repeated:
            names = [each for each in (entry.by, entry.via) if each is not None]
            more = [each for each in (result, error, *names) if each is not UNSET]
            size = sum(len(each) for each in more)
            if one.keep is not UNSET and size > RESERVED and not self.fits(size - RESERVED):
                return results.Refused("over-budget")
            one.the_end, one.more = the_end, more[result is not UNSET :]
            self.end(one, state, result)
            self.tell_ends(one)
        answer = results.Answered(one.state, repeated)
        return self.keep_answer(entry, answer, results.Answered(one.state, True))

    def unknown(self, operation_id):
        known = operation_id in self.forgotten or operation_id in self.gone
        return results.Refused("forgotten" if known else "unknown-operation")

    # Deadlines and memory.

    def reschedule_operation(self, entry):
        answer = self.known_answer(entry)
        if answer is not None:
            return answer
        one = self.known(entry.id)
        if one is None:
            return self.unknown(entry.id)
        if one.state != "pending":
            return results.Refused("already-ended")
        one.deadline, one.scheduled, one.moved = self.deadline_of(entry), self.now, self.position
        self.facts.append(("OperationRescheduled", one.id, -1 if one.deadline is None else one.deadline))
        if one.deadline is not None and one.deadline <= self.now:
            self.expire(one)
        answer = results.Rescheduled(one.deadline)
        return self.keep_answer(entry, answer, results.Rescheduled(one.deadline, True))

    def forget_operation(self, entry):
        one = self.known(entry.id)
        if one is None:
            return self.unknown(entry.id)
        if one.state == "pending":
            return results.Refused("pending")
        if one.keep is UNSET:
            self.forget(one)
        else:
            self.forget_kept(one)
        return results.APPLIED

    # Idempotency-Keys.

    def forgotten_answer(self, entry):
        """The answer to a key whose operation is forgotten; None if there is none."""
        gone = next((each for each in self.gone.values() if each.idem == entry.idem), None)
        if gone is None:
            return None
        same = isinstance(entry, kinds.SubmitOperation) and gone.digest == entry.digest
        return results.Refused("forgotten" if same else "idempotency-mismatch")
