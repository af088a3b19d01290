"""A reader of the log that is no worker: it keeps all entries, and folds them from the first one in the end."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from msgspec import Raw

from purgatory_async.cluster import Entry, Log
from purgatory_async.cluster.connection import following
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.codec import decode
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.kept_signals import KeySignalled
from purgatory_async.durable.fold.leases import ItemLeased
from purgatory_async.durable.fold.operations import OperationEnded
from purgatory_async.durable.fold.results import Dropped, Plain, Put, Result, Submitted
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.urls import opened, parsed

__all__ = ["History", "Lease", "Notes", "Operation", "Witness", "history_of", "noted", "witnessed"]


class Witness:
    """Keeps what a log has, from its first entry; nothing may be trimmed before it was read.

    Args:
        log: Open.
    """

    def __init__(self, log: Log) -> None:
        self.entries: Final[list[Entry]] = []
        self._log: Final = log

    async def run(self) -> None:
        """Read until cancelled."""
        async with following(self._log, 0) as reads:
            async for entries in reads:
                self.entries.extend(entries)

    async def caught_up(self) -> None:
        """Wait until it has read what is in the log now."""
        end = await self._log.end()
        while len(self.entries) < end:  # noqa: ASYNC110 - once, after the load
            await asyncio.sleep(0.02)


@asynccontextmanager
async def witnessed(url: str) -> AsyncIterator[Witness]:
    """Keep what the log of a store has meanwhile."""
    async with opened(parsed(url)) as (log, _):
        witness = Witness(log)
        reading = asyncio.create_task(witness.run())
        try:
            yield witness
        finally:
            reading.cancel()
            await asyncio.wait([reading])


@dataclass(slots=True)
class Operation:
    """An operation as the log has it; log times are microseconds."""

    begun_us: int
    timeout_us: int | None
    state: str = "pending"
    ended_us: int = 0


@dataclass(slots=True)
class Lease:
    """A leased item as the log has it; ``ended`` is by an entry, as ``ack`` or ``back``."""

    number: int
    until_us: int
    ended: str = ""


@dataclass(slots=True)
class History:
    """What the entries of a log say; signals and items are known by their numbers.

    Attributes:
        mixed: How many entries of each kind there are.
        signals: The positions of each signal that was counted, and how many operations it completed.
        items: Whether a taker got each item at once that was put.
        acknowledged: How often each item was.
        leases: All leases, by id.
        repeated: How many entries were dropped as repetitions.
        compared: How many digests of workers were compared with this fold's.
        differing: Positions at which one differed.
        early: What happened before its time.
        doubled: What happened twice.
    """

    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    signals: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    items: dict[int, list[bool]] = field(default_factory=dict[int, list[bool]])
    acknowledged: Counter[int] = field(default_factory=Counter[int])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    mixed: Counter[str] = field(default_factory=Counter[str])
    repeated: int = 0
    compared: int = 0
    differing: list[int] = field(default_factory=list[int])
    early: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    _lease_of: dict[int, Lease] = field(default_factory=dict[int, Lease])  # the last of each item
    _numbers: dict[int | str, int] = field(
        default_factory=dict[int | str, int]
    )  # of items, by the position of their put

    def note(self, raw: Entry, entry: kinds.Entry, result: Result, effects: Sequence[Effect]) -> None:
        """Note a step."""
        self.mixed[type(entry).__name__] += 1
        if isinstance(result, Dropped):
            self.repeated += result.why == "repeated"
        else:
            self._note_entry(raw, entry, result)
        for effect in effects:
            self._note_effect(raw.at_us, entry, effect)

    def lateness_ms(self) -> list[float]:
        """How much later than their timeouts operations expired, in log time."""
        return [
            (each.ended_us - each.begun_us - each.timeout_us) / 1000
            for each in self.operations.values()
            if each.timeout_us is not None and each.state == "expired"
        ]

    def _note_entry(self, raw: Entry, entry: kinds.Entry, result: Result) -> None:
        if isinstance(entry, kinds.SubmitOperation) and isinstance(result, Submitted):
            if not result.replayed:
                if entry.id in self.operations:
                    self.doubled.append(f"{entry.id} was submitted twice")
                self.operations[entry.id] = Operation(raw.at_us, entry.timeout_us)
        elif isinstance(entry, kinds.PutItem) and isinstance(result, Put):
            number = int(bytes(entry.item))
            self._numbers[result.item] = number
            if not result.replayed:
                self.items.setdefault(number, []).append(result.delivered)
        elif isinstance(entry, kinds.EndLease) and isinstance(result, Plain):
            self._end_lease(entry.lease_id, "return" if entry.back else "ack")
        elif isinstance(entry, kinds.LeaveLine):
            # All that it has goes back; a further item's lease has its id, followed by a dot and a number.
            for lease_id, lease in self.leases.items():
                if lease_id.partition(".")[0] == entry.lease_id and not lease.ended:
                    self._end_lease(lease_id, "gone")

    def _end_lease(self, lease_id: str, how: str) -> None:
        lease = self.leases[lease_id]
        if lease.ended in {"ack", "return"}:
            self.doubled.append(f"the lease {lease_id} ended twice: {lease.ended}, {how}")
        lease.ended = how
        self.acknowledged[lease.number] += how == "ack"

    def _note_effect(self, at_us: int, entry: kinds.Entry, effect: Effect) -> None:
        if isinstance(effect, OperationEnded):
            self._note_end(at_us, effect)
        elif isinstance(effect, KeySignalled) and isinstance(entry, kinds.SignalKey):
            number = json.loads(bytes(entry.value)) if isinstance(entry.value, Raw) else 0
            self.signals.setdefault(number, []).append((effect.signal.view.index, effect.completed))
        elif isinstance(effect, ItemLeased):
            self._note_lease(at_us, effect)

    def _note_end(self, at_us: int, effect: OperationEnded) -> None:
        operation, known_as = self.operations[effect.operation.id], effect.operation.id
        if operation.state != "pending":
            self.doubled.append(f"{known_as} ended twice: {operation.state}, {effect.operation.state}")
        operation.state, operation.ended_us = effect.operation.state, at_us
        due_us = None if operation.timeout_us is None else operation.begun_us + operation.timeout_us
        if operation.state == "expired" and (due_us is None or at_us < due_us):
            self.early.append(f"{known_as} expired at {at_us}, due at {due_us}")

    def _note_lease(self, at_us: int, effect: ItemLeased) -> None:
        lease = effect.lease
        number = self._numbers[lease.item.number]
        before = self._lease_of.get(number)
        if before is not None and before.ended == "ack":
            self.doubled.append(f"item {number} was leased after it was acknowledged")
        if before is not None and not before.ended and at_us < before.until_us:
            self.early.append(
                f"item {number} was leased at {at_us}, before its lease ended at {before.until_us}"
            )
        self.leases[lease.id] = self._lease_of[number] = Lease(number, lease.until_us)


class Notes(Protocol):
    """What is noted of a log while it is folded; see `History`."""

    compared: int
    differing: list[int]

    def note(self, raw: Entry, entry: kinds.Entry, result: Result, effects: Sequence[Effect]) -> None:
        """Note a step."""


N = TypeVar("N", bound=Notes)


def history_of(entries: Sequence[Entry]) -> History:
    """Fold a log from its first entry. O(n)."""
    return noted(entries, History())


def noted(entries: Sequence[Entry], history: N) -> N:
    """Do as `history_of`, with a history of its own."""
    digests: list[str] = [""]
    with closing(Fold()) as fold:
        for raw in entries:
            entry = decode(raw.data)
            result, effects = fold.apply(raw.position, raw.at_us, entry)
            history.note(raw, entry, result, effects)
            digests.append(fold.running.hex())
            if isinstance(entry, kinds.Alive) and entry.digest and entry.position:
                history.compared += 1
                if digests[entry.position] != entry.digest:
                    history.differing.append(entry.position)
    return history
