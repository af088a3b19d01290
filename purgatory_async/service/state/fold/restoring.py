"""The state back from its text.

What is due is scheduled anew, in the order in which it was scheduled at first: by the position of its cause, then by
kind. So the timer fires what is due in the same millisecond in the same order as in a replica that never stopped.

>>> from purgatory_async.service.state.fold.checkpoint import digest, parts
>>> from purgatory_async.service.state.fold.entries import SubmitOperation
>>> fold = Fold()
>>> _ = fold.apply(1, 1_000_000, SubmitOperation(id="a", keys=("k",), timeout=250_000))
>>> again = restored(parts(fold))
>>> again, digest(again) == digest(fold)
(<Fold position=1 level=1 pending=1>, True)
>>> fold.close(), again.close()
(None, None)
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from heapq import heappush
from itertools import count
from operator import itemgetter
from typing import Any, Final

import msgspec

from purgatory_async.service.messages import SignalView
from purgatory_async.service.state.fold import records as lines
from purgatory_async.service.state.fold.codec import detached, one_line
from purgatory_async.service.state.fold.entries import SubmitOperation, WantItem
from purgatory_async.service.state.fold.fold import (
    DIGEST_BYTES,
    FIRST_LEVEL,
    LEVEL,
    Fold,
    FoldError,
    LevelError,
)
from purgatory_async.service.state.fold.kept_signals import Key
from purgatory_async.service.state.fold.operations import Operation
from purgatory_async.service.state.fold.queues import Lease, Taker
from purgatory_async.service.state.fold.replays import Replay
from purgatory_async.service.state.fold.shared import Limits, Totals
from purgatory_async.service.state.fold.writers import Writer
from purgatory_async.service.state.signals import Signal

__all__ = ["Restoring", "empty_after", "restored"]

_DECODER: Final[msgspec.json.Decoder[lines.AnyLine]] = msgspec.json.Decoder(lines.AnyLine)
# The kinds of what is due, in their order within a step.
_LOAN, _TAKER, _OPERATION, _SILENCE = range(4)


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
    return restoring.finish()


def empty_after(position: int, make: Callable[[int], Fold] = Fold) -> Fold:
    """Return an empty state at a position, for a log whose entries up to there have left nothing. O(1)."""
    running = bytes(DIGEST_BYTES).hex()
    head = lines.Head(FIRST_LEVEL, position, 0, running, floor=position, limits=Limits(), totals=Totals())
    return _Lines(head, make).finish()


class Restoring:
    """A state that comes back part by part, so that a loop can do other work between them.

    Args:
        make: As for `restored`.
    """

    def __init__(self, make: Callable[[int], Fold] = Fold) -> None:
        self._make: Final = make
        self._hashed: Final = blake2b(digest_size=DIGEST_BYTES)
        self._lines: _Lines | None = None
        self._complete = False

    def add(self, part: bytes) -> bool:
        """Take over the next part; returns whether it is the last. O(its size). Raises as `restored`."""
        *content, last = part.splitlines(keepends=True) or [b""]
        foot = _decoded(last)
        self._hashed.update(part[: len(part) - len(last)])
        if not isinstance(foot, lines.Foot) or foot.digest != self._hashed.hexdigest():
            raise FoldError(
                f"a part of a checkpoint must end with the digest {self._hashed.hexdigest()}, got {last[:200]!r}; "
                "restore a backup of the store"
            )
        if self._lines is None:
            self._lines = _Lines(_head(content.pop(0) if content else b""), self._make)
        for line in content:
            self._lines.take(_decoded(line))
        self._complete = not foot.more
        return self._complete

    def finish(self) -> Fold:
        """Return the state. O(n log n). Raises as `restored`."""
        if self._lines is None or not self._complete:
            raise FoldError("the last part of a checkpoint is missing; restore a backup of the store")
        return self._lines.finish()


def _head(line: bytes) -> lines.Head:
    head = _decoded(line)
    if not isinstance(head, lines.Head):
        raise FoldError(f"a checkpoint must begin with its head, got {line[:200]!r}")
    if head.level > LEVEL:
        raise LevelError(f"a checkpoint's level must be at most {LEVEL}, got {head.level}; upgrade")
    return head


def _decoded(line: bytes) -> lines.AnyLine:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FoldError(
            f"a checkpoint's line must be JSON of a known kind, got {line[:200]!r}: {error}"
        ) from None


class _Lines:
    """A fold that takes the lines of its checkpoint."""

    def __init__(self, head: lines.Head, make: Callable[[int], Fold]) -> None:
        fold = make(head.at_us)
        self._fold: Final = fold
        self._views: Final[dict[int, SignalView]] = {}
        self._listening: Final[set[str]] = set()  # writers
        self._order: Final = count()
        # Position of the cause, kind, number of the line, what to do, and with what.
        self._due: Final[list[tuple[int, int, int, Callable[[Any], object], object]]] = []
        self._rules: Final[dict[type[lines.Line], Callable[[Any], None]]] = {
            lines.WriterLine: self._writer,
            lines.SignalLine: self._signal,
            lines.KeyLine: self._key,
            lines.OperationLine: self._operation,
            lines.ForgottenLine: self._forgotten,
            lines.ReplayLine: self._replay,
            lines.ItemLine: self._item,
            lines.TakerLine: self._taker,
            lines.LeaseLine: self._lease,
            lines.EndedLeaseLine: self._ended_lease,
        }
        fold.level = head.level
        fold.position = fold.shared.position = fold.signals.index = head.position
        fold.remember(bytes.fromhex(head.running))
        fold.shared.limits = head.limits
        fold.shared.totals = head.totals
        fold.signals.floor = head.floor

    def take(self, line: lines.Line) -> None:
        """Take over a line; only what is due waits for `finish`."""
        self._rules[type(line)](line)

    def finish(self) -> Fold:
        """Schedule what is due, and return the fold."""
        fold = self._fold
        for _, _, _, schedule, subject in sorted(self._due, key=itemgetter(0, 1, 2)):
            schedule(subject)
        return fold

    def _when(self, position: int, kind: int, schedule: Callable[[Any], object], subject: object) -> None:
        self._due.append((position, kind, next(self._order), schedule, subject))

    def _writer(self, line: lines.WriterLine) -> None:
        self._fold.writers.known[line.name] = Writer(line.number, line.position, line.at_us)

    def _signal(self, line: lines.SignalLine) -> None:
        view = line.view
        self._views[view.index] = SignalView(view.key, view.index, detached(view.value), view.voter)

    def _key(self, line: lines.KeyLine) -> None:
        kept = [Signal(self._views[index], amount, at_us) for index, amount, at_us in line.signals]
        self._fold.signals.keys[line.key] = Key(kept, line.floor)

    def _operation(self, line: lines.OperationLine) -> None:
        operations, shared = self._fold.operations, self._fold.shared
        order = SubmitOperation(
            id=line.id, keys=line.keys, need=line.need, timeout=line.timeout_us, data=detached(line.data)
        )
        timeout = None
        if line.timeout_us is not None and line.state == "pending":
            timeout = shared.seconds_until(line.submitted_us + line.timeout_us)
        operation = Operation(operations, order, line.position, line.submitted_us, timeout)
        operation.recall(tuple(self._views[index] for index in line.signals), line.progress)
        operations.add(operation, line.idem, line.digest)
        if line.state == "pending":
            self._when(line.position, _OPERATION, operations.watch, operation)
        else:
            operation.end_as(line.state, line.ended_us, detached(line.result))
            operations.keep(operation)

    def _forgotten(self, line: lines.ForgottenLine) -> None:
        self._fold.operations.forgotten[line.id] = line.at_us

    def _replay(self, line: lines.ReplayLine) -> None:
        self._fold.replays.known[line.idem] = Replay(line.digest, line.answer, line.at_us)

    def _item(self, line: lines.ItemLine) -> None:
        heappush(self._fold.queues.items.setdefault(line.queue, []), (line.number, one_line(line.item)))
        self._fold.queues.kept += 1

    def _taker(self, line: lines.TakerLine) -> None:
        queues = self._fold.queues
        order = WantItem(writer=line.writer, queue=line.queue, lease_id=line.lease_id, lease=line.lease)
        timeout = self._fold.shared.seconds_until(line.until_us)
        taker = Taker(queues, order, line.position, line.until_us, timeout)
        self._when(line.position, _TAKER, queues.stand, taker)
        # The writer's silence counts from its last entry, once for all its takers.
        if line.writer is not None and line.writer not in self._listening:
            self._listening.add(line.writer)
            writers = self._fold.writers
            self._when(writers.known[line.writer].position, _SILENCE, writers.listen, line.writer)

    def _lease(self, line: lines.LeaseLine) -> None:
        queues = self._fold.queues
        lease = Lease(
            queues,
            line.id,
            line.queue,
            (line.number, one_line(line.item)),
            position=line.position,
            until_us=line.until_us,
            timeout=self._fold.shared.seconds_until(line.until_us),
        )
        self._when(line.position, _LOAN, queues.borrow, lease)

    def _ended_lease(self, line: lines.EndedLeaseLine) -> None:
        self._fold.queues.ended_leases[line.id] = line.at_us
