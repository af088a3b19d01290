"""The state as text, and its digest.

The text is canonical: equal states have equal texts, byte for byte, however they came about. What is due is not in it,
because it follows from the rest; see `restoring`. Each part ends with the digest so far, and the last one with the
digest of the state, so that damage is found before it is read.
"""

from collections.abc import Iterator
from hashlib import blake2b
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import UNSET

from purgatory_async.durable.fold import records as lines
from purgatory_async.durable.fold.fold import DIGEST_BYTES, Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.promises import Promise
from purgatory_async.durable.fold.takes import Takes
from purgatory_async.durable.fold.terms import seal

PART_BYTES: Final = 1 << 20


def parts(fold: Fold, size: int = PART_BYTES) -> Iterator[bytes]:
    """Return the state as text, in parts of whole lines: ``size`` bytes and the rest of a line. O(n).

    Read them all before the fold applies another entry.
    """
    encode = msgspec.json.Encoder().encode_into
    hashed = blake2b(digest_size=DIGEST_BYTES)
    buffer = bytearray()
    for line in _lines(fold):
        encode(line, buffer, -1)
        buffer += b"\n"
        if len(buffer) >= size:
            hashed.update(buffer)
            encode(lines.Foot(hashed.hexdigest(), more=True), buffer, -1)
            yield bytes(buffer + b"\n")
            buffer.clear()
    hashed.update(buffer)
    terms, state = fold.terms.saved(), hashed.hexdigest()
    encode(lines.Foot(state, terms=terms, sealed=seal(terms, state)), buffer, -1)
    yield bytes(buffer + b"\n")


def digest(fold: Fold) -> str:
    """Return the digest of the state, in hexadecimal. O(n)."""
    *_, last = parts(fold)
    foot = msgspec.json.decode(last.splitlines()[-1], type=lines.Foot)
    return foot.digest


def _lines(fold: Fold) -> Iterator[lines.Line]:
    shared = fold.shared
    yield lines.Head(
        level=fold.level,
        position=fold.position,
        at_us=fold.at_us,
        running=fold.running.hex(),
        floor=fold.signals.floor,
        limits=shared.limits,
        totals=shared.totals,
        dead=fold.queues.dead,
    )
    for name, writer in fold.writers.known.items():
        yield lines.WriterLine(name, writer.number, writer.position, writer.at_us)
    pending = list(fold.operations.pending())
    answers = fold.operations.answers
    all_known = [*fold.operations.ended_ones, *(kept for _, _, kept in answers.ended), *pending]
    yield from _signal_lines(fold, all_known)
    for operation in all_known:
        yield _operation_line(fold, operation)
    for gone in fold.operations.forgotten:
        yield lines.ForgottenLine(*gone)
    for operation_id, until_us, kept in answers.ids:
        yield lines.GoneLine(operation_id, until_us, *kept)
    for (owner, idem), at_us, replay in fold.replays:
        yield lines.ReplayLine(idem, replay.digest, replay.answer, at_us, owner)
    yield from _queue_lines(fold)


def _signal_lines(fold: Fold, operations: list[Operation]) -> Iterator[lines.Line]:
    shown = {
        signal.view.index: signal
        for operation in operations
        if operation.shown is not None
        for signal in operation.shown.latest.values()
    }
    for known in fold.signals.keys.values():
        shown.update((signal.view.index, signal) for signal in known.signals)
    for _, signal in sorted(shown.items(), key=itemgetter(0)):
        yield lines.SignalLine(signal.view, signal.owner)
    for key, known in fold.signals.keys.items():
        kept = [(signal.view.index, signal.amount, signal.at_us) for signal in known.signals]
        yield lines.KeyLine(key, known.floor, kept)


def _operation_line(fold: Fold, operation: Operation) -> lines.OperationLine:
    idem, request = fold.operations.idem_of.get(operation.id, (UNSET, ""))
    promise = operation.promise or Promise(operation.timeout_us)
    pending = operation.outcome is None
    return lines.OperationLine(
        position=operation.position,
        id=operation.id,
        keys=operation.watch_keys,
        need=operation.need.wire,
        submitted_us=operation.submitted_us,
        timeout_us=promise.timeout_us,
        progress=operation.need.progress,
        signals=[view.index for view in operation.signals],
        data=operation.data,
        idem=idem,
        digest=request,
        state=operation.state,
        ended_us=operation.ended_us,
        result=UNSET if pending or operation.result is None else operation.result,
        owner=operation.owner,
        until_us=promise.until_us,
        keep_us=promise.keep_us,
        ask=promise.ask,
        announce=promise.announce,
        deliver=promise.deliver,
        gap=promise.gap,
        deadline_us=operation.deadline_us if promise.moved else UNSET,
        moved=promise.moved,
        ending=operation.ending,
        trace=promise.trace,
    )


def _queue_lines(fold: Fold) -> Iterator[lines.Line]:
    queues = fold.queues
    for _, queue in sorted(queues.by_name.items()):
        own = queue.settings
        if own is not None:
            yield lines.QueueLine(queue.name, own.lease_us, own.max_attempts, own.max_items, own.max_bytes)
    kept = [(item, queue.name, 0, 0) for queue in queues.by_name.values() for item in queue.ready]
    for queue in queues.by_name.values():
        kept += [(each.item, queue.name, each.until_us, each.since) for each in queue.hidden.values()]
    for item, name, until_us, since in sorted(kept, key=itemgetter(0)):
        yield lines.ItemLine(
            *(item.number, name, item.text, item.place, item.put_us, item.attempts, until_us, since),
            owner=item.owner,
            trace=item.trace,
        )
    for taker in queues.takers.values():
        order = taker.order
        yield lines.TakerLine(
            taker.position,
            order.queue,
            order.lease_id,
            taker.lease_us,
            taker.until_us,
            order.writer,
            order.max,
            order.owner,
            order.idem,
            order.digest,
        )
    yield from _take_lines(queues.leases.takes)
    for lease in queues.leases.values():
        item = lease.item
        yield lines.LeaseLine(
            lease.position,
            lease.id,
            lease.queue,
            item.number,
            item.text,
            lease.until_us,
            place=item.place,
            put_us=item.put_us,
            lease_us=lease.lease_us,
            before=item.attempts,
            taker=UNSET if lease.taker == lease.id else lease.taker,
            owner=lease.owner,
            by=item.owner,
            trace=item.trace,
        )
    for gone in queues.leases.ended:
        yield lines.EndedLeaseLine(*gone)


def _take_lines(takes: Takes) -> Iterator[lines.Line]:
    for (owner, idem), take in sorted(takes.items(), key=lambda each: (each[0][0] or "", each[0][1])):
        if take.leases:
            yield lines.TakeLine(idem, take.digest, take.taker, take.shared, owner)
