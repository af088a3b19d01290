"""Compares what people were shown with what the log says: each question asked once, answered once, never early."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Raw

from purgatory_async.cluster import Entry
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.leases import ItemLeased
from purgatory_async.durable.fold.operations import OperationEnded
from purgatory_async.durable.fold.results import Rescheduled, Result, Submitted
from purgatory_async.durable.fold.shared import Effect
from tests.soak.chaos.answers import Faults
from tests.soak.promises.rounds import ANNOUNCED, ENDED, MOVED_S, timeout_of

__all__ = ["End", "Heard", "Log", "judge"]

Line = dict[str, Any]
End = tuple[str, Any, str | None]
"""State, result and who."""


@dataclass(slots=True)
class Round:
    """A round as the log has it; ``items`` are the numbers of those that tell of it, by queue."""

    submitted: int = 0
    due_us: int = 0
    ends: list[End] = field(default_factory=list[End])
    items: dict[str, set[int | str]] = field(default_factory=lambda: {ANNOUNCED: set(), ENDED: set()})


@dataclass(slots=True)
class Log:
    """What a log says of all rounds; see `chaos.witness.Notes`."""

    rounds: dict[str, Round] = field(default_factory=dict[str, Round])
    early: list[str] = field(default_factory=list[str])
    compared: int = 0
    differing: list[int] = field(default_factory=list[int])

    def note(self, raw: Entry, entry: kinds.Entry, result: Result, effects: Sequence[Effect]) -> None:
        """Note a step."""
        if isinstance(entry, kinds.SubmitOperation) and isinstance(result, Submitted):
            of = self.rounds.setdefault(entry.id, Round())
            of.submitted += 1
            of.due_us = raw.at_us + (entry.timeout_us or 0)
        elif isinstance(entry, kinds.RescheduleOperation) and isinstance(result, Rescheduled):
            self.rounds[entry.id].due_us = raw.at_us + (entry.timeout_us or 0)
        for effect in effects:
            if isinstance(effect, OperationEnded):
                self._note_end(raw.at_us, effect)
            elif isinstance(effect, ItemLeased):
                item = effect.lease.item
                told = self.rounds[json.loads(bytes(item.text))["operation"]]
                told.items[effect.lease.queue].add(item.number)

    def _note_end(self, at_us: int, effect: OperationEnded) -> None:
        ended = effect.operation
        of = self.rounds[ended.id]
        result = json.loads(bytes(ended.result)) if isinstance(ended.result, Raw) else None
        of.ends.append((ended.state, result, None if ended.ending is None else ended.ending.by))
        if ended.state == "expired" and at_us < of.due_us:
            self.early.append(f"{ended.id} expired at {at_us}, due at {of.due_us}")


class Heard:
    """What people told of all rounds.

    Args:
        faults: Where what is wrong at once is counted.

    Attributes:
        read: The rounds of which each process of askers has read the answer.
        accepted: The different answers to each round that were accepted.
        shown: The ends that were shown of each.
        expired: When each was first shown as expired, by the clock of the askers.
    """

    def __init__(self, faults: Faults) -> None:
        self.read: Final[dict[str, set[str]]] = {}
        self.accepted: Final[dict[str, set[str]]] = {}
        self.shown: Final[dict[str, list[End]]] = {}
        self.expired: Final[dict[str, float]] = {}
        self._asked: Final[dict[str, float]] = {}
        self._moved: Final[dict[str, float]] = {}
        self._faults: Final = faults

    def due(self, name: str) -> float:
        """Return before when a round cannot have expired, by the clock of the askers, of whom all have told."""
        return max(self._asked[name] + timeout_of(name), self._moved.get(name, 0.0) + MOVED_S)

    def hear(self, who: str, line: Line) -> None:
        """Note a line of one of the processes."""
        name, step, at = line["name"], line["step"], line["at"]
        if step == "odd":
            self._faults.wrong("different", f"{name}: {line['what']}")
        elif step == "unanswered":
            self._faults.counts["unanswered"] += 1
        elif step == "ask":
            self._asked[name] = min(at, self._asked.get(name, at))
        elif step == "moved":
            self._moved[name] = max(line["sent"], self._moved.get(name, 0.0))
        elif step == "read":
            self.read.setdefault(who, set()).add(name)
        if "view" in line:
            self._show(name, at, line)

    def _show(self, name: str, at: float, line: Line) -> None:
        view = line["view"]
        end = view["state"], view.get("result"), view["by"]
        self.shown.setdefault(name, []).append(end)
        if "accepted" in line:
            self.accepted.setdefault(name, set()).add(json.dumps(line["accepted"]))
            if end[1] != line["accepted"]:
                self._faults.wrong("lost", f"{name} is {end} after {line['accepted']} was accepted")
        if line["step"] == "delivered" and end[0] != line["state"]:
            self._faults.wrong("early", f"{name} is {end[0]} when {line['state']} is delivered")
        if end[0] == "expired":
            self.expired[name] = min(at, self.expired.get(name, at))


def judge(faults: Faults, heard: Heard, log: Log, names: Iterable[str], last: Mapping[str, End]) -> None:
    """Count what is wrong with the rounds. O(all).

    Args:
        faults: Where it is counted.
        heard: What people told.
        log: What the log says.
        names: All rounds.
        last: What is shown of each in the end.
    """
    _early(faults, heard, log)
    for position in log.differing:
        faults.wrong("different", f"a worker's digest at position {position}")
    for name in names:
        of, accepted = log.rounds.get(name, Round()), heard.accepted.get(name, set())
        told = {queue: len(items) for queue, items in of.items.items()}
        if of.submitted > 1 or told[ANNOUNCED] > 1:
            faults.wrong("asked twice", f"{name} was submitted {of.submitted} times, {told} were told")
        if len(of.ends) > 1 or told[ENDED] > 1 or len(accepted) > 1:
            faults.wrong("doubled", f"{name} ended {of.ends}, {told} were told, accepted were {accepted}")
        if not of.ends or not all(told.values()):
            faults.wrong("lost", f"{name} ended {of.ends}, {told} were told")
            continue
        for shown in [*heard.shown.get(name, ()), last.get(name)]:
            if shown != of.ends[-1]:
                faults.wrong("lost", f"{name} ended {of.ends[-1]}, shown was {shown}")


def _early(faults: Faults, heard: Heard, log: Log) -> None:
    for what in log.early:
        faults.wrong("early", what)
    for name, at in heard.expired.items():
        if at < heard.due(name):
            faults.wrong("early", f"{name} expired {heard.due(name) - at:.4f} s before its time")
