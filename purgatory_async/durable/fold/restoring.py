"""Restores the state from its text.

What is due is scheduled anew, in the order in which it was scheduled at first: by the position of its cause, then by
kind. So the timer fires what is due in the same millisecond in the same order as in a replica that never stopped.

>>> from purgatory_async.durable.fold.checkpoint import digest, parts
>>> from purgatory_async.durable.fold.entries import SubmitOperation
>>> fold = Fold()
>>> _ = fold.apply(1, 1_000_000, SubmitOperation(id="a", keys=("k",), timeout_us=250_000))
>>> again = restored(parts(fold))
>>> again, digest(again) == digest(fold)
(<Fold position=1 level=1 pending=1>, True)
>>> fold.close(), again.close()
(None, None)
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UnsetType

from purgatory_async.cluster.repetitions import Writer
from purgatory_async.durable.documents import SignalView
from purgatory_async.durable.fold import records as lines
from purgatory_async.durable.fold.codec import detached, older, one_line
from purgatory_async.durable.fold.entries import SetQueue, SubmitOperation, WantItem
from purgatory_async.durable.fold.fold import (
    DIGEST_BYTES,
    FIRST_LEVEL,
    LEVEL,
    Fold,
    FoldError,
    LevelError,
)
from purgatory_async.durable.fold.items import Hidden, Item
from purgatory_async.durable.fold.kept_answers import Gone
from purgatory_async.durable.fold.kept_bytes import size_of_signal
from purgatory_async.durable.fold.leases import Lease, Taker
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.promises import Promise
from purgatory_async.durable.fold.replays import Replay
from purgatory_async.durable.fold.shared import Limits, Totals
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.durable.fold.terms import seal

if TYPE_CHECKING:
    from purgatory_async.durable.fold.takes import Take

_DECODER: Final[msgspec.json.Decoder[lines.AnyLine]] = msgspec.json.Decoder(lines.AnyLine)
_CAUSE: Final = itemgetter(0, 1)
# The kinds of what is due, in their order within a step.
_LEASE, _HIDDEN, _TAKER, _OPERATION, _SILENCE = range(5)
_Due = tuple[int, int, Callable[[Any], object], object]
"""Position of the cause, kind, what to do, and with what."""

AT_ONCE: Final = 1000
"""How much of what is due one call schedules: a few milliseconds."""


def restored(saved: Iterable[bytes], make: Callable[[int], Fold] = Fold) -> Fold:
    """Return the state of a checkpoint. O(n log n).

    Args:
        saved: Its parts, in order.
        make: Makes an empty fold, given its log time in microseconds. Its observer hears of what is restored, too.

    Raises:
        FoldError: The text is damaged or incomplete.
        LevelError: It is of a level above `LEVEL`.
    """
    restoring = Restoring(make)
    for part in saved:
        if restoring.add(part):
            break
    while (fold := restoring.finish()) is None:
        pass
    return fold


def empty_after(position: int, make: Callable[[int], Fold] = Fold) -> Fold:
    """Return an empty state at a position, for a log whose entries up to there left nothing behind. O(1)."""
    running = bytes(DIGEST_BYTES).hex()
    head = lines.Head(FIRST_LEVEL, position, 0, running, floor=position, limits=Limits(), totals=Totals())
    return _Lines(head, make).fold


class Restoring:
    """Restores a state step by step, so that a loop can do other work in between.

    Args:
        make: As for `restored`.
    """

    def __init__(self, make: Callable[[int], Fold] = Fold) -> None:
        self._make: Final = make
        self._hashed: Final = blake2b(digest_size=DIGEST_BYTES)
        self._lines: _Lines | None = None
        self._parts = 0
        self._complete = False
        self._left: Iterator[_Due] | None = None  # what is due and not yet scheduled

    def add(self, part: bytes) -> bool:
        """Take over the next part; returns whether it is the last. O(its size). Raises as `restored`."""
        start = part.rfind(b"\n", 0, -1) + 1  # of the last line
        content, last = part[:start], part[start:]
        foot = next(iter(_decoded(last)), None)
        self._hashed.update(content)
        digest = self._hashed.hexdigest()
        if not isinstance(foot, lines.Foot) or not _is_of(digest, foot):
            raise FoldError(
                f"a part of a checkpoint must end with the digest {digest}, got {last[:200]!r}; "
                "restore a backup of the store"
            )
        if self._lines is None:  # before the other lines, which may be of kinds of a higher level
            head, _, content = content.partition(b"\n")
            self._lines = _Lines(_head(head), self._make)
        for line in _decoded(content):
            self._lines.take(line)
        self._lines.fold.terms.resume(foot.terms)
        self._parts += 1
        self._complete = not foot.more
        return self._complete

    def finish(self) -> Fold | None:
        """Schedule some of what is due; returns the state once nothing is left. Raises as `restored`."""
        if self._lines is None or not self._complete:
            raise FoldError(
                f"a checkpoint must end with its last part, got {self._parts} before it; restore a backup of the store"
            )
        if self._left is None:
            self._left = self._lines.due()
        some = list(islice(self._left, AT_ONCE))
        for _, _, schedule, subject in some:
            schedule(subject)
        return None if some else self._lines.fold


def _is_of(digest: str, foot: lines.Foot) -> bool:
    return foot.digest == digest and foot.sealed == seal(foot.terms, digest)


def _head(line: bytes) -> lines.Head:
    head = next(iter(_decoded(line)), None)
    if not isinstance(head, lines.Head):
        raise FoldError(f"a checkpoint must begin with its head, got {line[:200]!r}")
    if head.level > LEVEL:
        raise LevelError(f"a checkpoint's level must be at most {LEVEL}, got {head.level}; upgrade")
    return head


def _decoded(text: bytes) -> list[lines.AnyLine]:
    try:
        return _DECODER.decode_lines(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FoldError(
            f"a checkpoint's lines must be JSON of known kinds, got {text[:200]!r}: {older(error)}"
        ) from None


class _Lines:
    """A fold that takes the lines of its checkpoint."""

    def __init__(self, head: lines.Head, make: Callable[[int], Fold]) -> None:
        self.fold: Final = make(head.at_us)
        self._signals: Final[dict[int, Signal]] = {}
        self._takes: Final[dict[str, Take]] = {}  # by taker
        self._listening: Final[set[str]] = set()  # writers
        self._pending: Final[list[Operation]] = []  # by position
        self._others: Final[list[_Due]] = []  # leases, takers and silent writers
        self._rules: Final[dict[type[lines.Line], Callable[[Any], None]]] = {
            lines.WriterLine: self._writer,
            lines.SignalLine: self._signal,
            lines.KeyLine: self._key,
            lines.OperationLine: self._operation,
            lines.ForgottenLine: self._forgotten,
            lines.GoneLine: self._gone,
            lines.ReplayLine: self._replay,
            lines.QueueLine: self._queue,
            lines.ItemLine: self._item,
            lines.TakerLine: self._taker,
            lines.TakeLine: self._take,
            lines.LeaseLine: self._lease,
            lines.EndedLeaseLine: self._ended_lease,
        }
        fold = self.fold
        fold.level = head.level
        fold.position = fold.shared.position = head.position
        fold.remember(bytes.fromhex(head.running))
        fold.shared.limits = head.limits
        fold.shared.totals = head.totals
        fold.signals.floor = fold.signals.index = head.floor
        fold.queues.dead = head.dead

    def take(self, line: lines.Line) -> None:
        """Take over a line, without scheduling what is due."""
        self._rules[type(line)](line)

    def due(self) -> Iterator[_Due]:
        """Iterate over what is due, in the order in which it was scheduled at first. O(n log n)."""
        self.fold.signals.take_turns()
        watch = self.fold.operations.watch
        pending = ((each.position, _OPERATION, watch, each) for each in self._pending)
        return merge(pending, sorted(self._others, key=_CAUSE))

    def _writer(self, line: lines.WriterLine) -> None:
        self.fold.writers.known[line.name] = Writer(line.number, line.position, line.at_us)

    def _signal(self, line: lines.SignalLine) -> None:
        view = line.view
        view = SignalView(view.key, view.index, detached(view.value), view.voter)
        self._signals[view.index] = Signal(view, 1, size=size_of_signal(view), owner=line.owner)

    def _key(self, line: lines.KeyLine) -> None:
        kept = list[Signal]()
        for index, amount, at_us in line.signals:
            signal = self._signals[index]
            signal.amount, signal.at_us = amount, at_us
            kept.append(signal)
        self.fold.signals.resume(line.key, kept, line.floor)

    def _operation(self, line: lines.OperationLine) -> None:
        operations, shared = self.fold.operations, self.fold.shared
        order = SubmitOperation(
            id=line.id,
            keys=line.keys,
            need=line.need,
            timeout_us=line.timeout_us,
            data=detached(line.data),
            idem=line.idem,
            digest=line.digest,
            owner=line.owner,
            until_us=line.until_us,
            gap=line.gap,
            keep_us=line.keep_us,
            ask=line.ask,
            announce=line.announce,
            deliver=line.deliver,
            trace=line.trace,
        )
        operation = Operation(operations, order, line.position, line.submitted_us, None)
        if order.promises:
            operation.promise_as(order, Promise.of(order))
        pending = line.state == "pending"
        if line.moved:
            operation.promised().moved = line.moved
            operation.deadline_us = None if isinstance(line.deadline_us, UnsetType) else line.deadline_us
            if pending:  # its deadline is scheduled in the order of the deadlines
                self._others.append((line.moved, _OPERATION, operations.restart, operation))
        elif pending and operation.deadline_us is not None:
            operation.timeout = shared.seconds_until(operation.deadline_us)
        operations.add(operation, line.idem, line.digest)
        operation.recall([self._signals[index] for index in line.signals], line.progress)
        if pending:
            self._pending.append(operation)
        else:
            ending = line.ending
            if ending is not None:
                ending = msgspec.structs.replace(ending, error=detached(ending.error))
            operation.end_as(line.state, line.ended_us, detached(line.result), ending)
            operations.keep(operation)

    def _forgotten(self, line: lines.ForgottenLine) -> None:
        self.fold.operations.forgotten.add(line.id, line.at_us, line.owner)

    def _gone(self, line: lines.GoneLine) -> None:
        gone = Gone(line.owner, line.idem, line.digest)
        self.fold.operations.answers.remember(line.id, line.until_us, gone)

    def _replay(self, line: lines.ReplayLine) -> None:
        self.fold.replays.add((line.owner, line.idem), line.at_us, Replay(line.digest, line.answer))

    def _queue(self, line: lines.QueueLine) -> None:
        self.fold.queues.set(
            SetQueue(
                queue=line.queue,
                lease_us=line.lease_us,
                max_attempts=line.max_attempts,
                max_items=line.max_items,
                max_bytes=line.max_bytes,
            )
        )

    def _item(self, line: lines.ItemLine) -> None:
        queues, item = self.fold.queues, _item_of(line, line.attempts, line.owner)
        queue = queues.queue(line.queue)
        queue.weigh(item.size, item.owner)
        if not line.until_us:
            queue.keep(item)
            queues.kept += 1
            return
        hidden = Hidden(
            line.queue,
            item,
            since=line.since,
            until_us=line.until_us,
            timeout=self.fold.shared.seconds_until(line.until_us),
            ripe=queues.ripe,
        )
        self._others.append((line.since, _HIDDEN, queues.hide, hidden))

    def _taker(self, line: lines.TakerLine) -> None:
        queues = self.fold.queues
        order = WantItem(
            writer=line.writer,
            queue=line.queue,
            lease_id=line.lease_id,
            lease_us=line.lease_us,
            max=line.max,
            owner=line.owner,
            idem=line.idem,
            digest=line.digest,
        )
        timeout = self.fold.shared.seconds_until(line.until_us)
        taker = Taker(
            queues, order, line.lease_us, position=line.position, until_us=line.until_us, timeout=timeout
        )
        self._others.append((line.position, _TAKER, queues.takers.stand, taker))
        # The writer's silence counts from its last entry, once for all its takers.
        if line.writer is not None and line.writer not in self._listening:
            self._listening.add(line.writer)
            writers = self.fold.writers
            since = writers.known[line.writer].position
            self._others.append((since, _SILENCE, writers.listen, line.writer))

    def _take(self, line: lines.TakeLine) -> None:
        take = self.fold.queues.leases.takes.restore(
            (line.owner, line.idem), line.digest, line.taker, shared=line.shared
        )
        self._takes[line.taker] = take

    def _lease(self, line: lines.LeaseLine) -> None:
        queues = self.fold.queues
        taker = line.id if isinstance(line.taker, UnsetType) else line.taker
        lease = Lease(
            queues,
            line.id,
            taker,
            line.queue,
            _item_of(line, line.before, line.by),
            lease_us=line.lease_us,
            position=line.position,
            until_us=line.until_us,
            timeout=self.fold.shared.seconds_until(line.until_us),
            owner=line.owner,
            take=self._takes.get(taker),
        )
        self._others.append((line.position, _LEASE, queues.leases.restore, lease))

    def _ended_lease(self, line: lines.EndedLeaseLine) -> None:
        self.fold.queues.leases.ended.add(line.id, line.at_us, line.owner)


def _item_of(line: lines.ItemLine | lines.LeaseLine, attempts: int, owner: str | None) -> Item:
    return Item(*line.place, line.number, line.put_us, attempts, one_line(line.item), owner, line.trace)
