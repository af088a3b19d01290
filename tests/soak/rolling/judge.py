"""Compares what workers told of their jobs with what the log says; the rounds are judged as in `promises`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from purgatory_async.cluster import Entry
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.leases import ItemLeased
from purgatory_async.durable.fold.results import Result
from purgatory_async.durable.fold.shared import Effect
from tests.soak.chaos.answers import Faults
from tests.soak.chaos.witness import History
from tests.soak.promises import judge as rounds
from tests.soak.rolling.rounds import JOBS

__all__ = ["Heard", "Log", "judge"]


class _Jobs(History):
    """What the log says of the jobs; other queues have items of other kinds."""

    def _note_lease(self, at_us: int, effect: ItemLeased) -> None:
        if effect.lease.queue == JOBS:
            super()._note_lease(at_us, effect)

    def _end_lease(self, lease_id: str, how: str) -> None:
        if lease_id in self.leases:
            super()._end_lease(lease_id, how)

    def _note_end(self, at_us: int, effect: object) -> None:
        """Leave it to the rounds, which may be rescheduled."""


@dataclass(slots=True)
class Log(rounds.Log):
    """What a log says of all rounds and jobs."""

    jobs: History = field(default_factory=_Jobs)

    def note(self, raw: Entry, entry: kinds.Entry, result: Result, effects: Sequence[Effect]) -> None:
        """Note a step."""
        self.jobs.note(raw, entry, result, effects)
        told = [each for each in effects if not (isinstance(each, ItemLeased) and each.lease.queue == JOBS)]
        rounds.Log.note(self, raw, entry, result, told)


class Heard(rounds.Heard):
    """What workers told of all rounds and jobs.

    Args:
        faults: Where what is wrong at once is counted.

    Attributes:
        begun: The rounds that were begun.
        put: The jobs whose put was answered.
        runs: How often a job was begun under each lease.
        done: The leases under which a job was done, each with the run of the worker that did it.
        killed: The runs of workers that were killed.
    """

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.begun: Final[dict[str, None]] = {}
        self.put: Final[set[int]] = set()
        self.runs: Final = Counter[str]()
        self.done: Final[dict[str, str]] = {}
        self.killed: Final[set[str]] = set()

    def hear(self, who: str, line: rounds.Line, run: str = "") -> None:
        """Note a line of a worker's run."""
        match line["step"]:
            case "put":
                self.put.add(line["job"])
            case "run":
                self.runs[line["lease"]] += 1
            case "ran":
                self.done[line["lease"]] = run
            case _:
                if line["step"] == "ask":
                    self.begun[line["name"]] = None
                super().hear(who, line)


def judge(faults: Faults, heard: Heard, log: Log, last: Mapping[str, rounds.End]) -> None:
    """Count what is wrong with the rounds and the jobs. O(all).

    Args:
        faults: Where it is counted.
        heard: What workers told.
        log: What the log says.
        last: What is shown of each round in the end.
    """
    rounds.judge(faults, heard, log, heard.begun, last)
    jobs = log.jobs
    for what in jobs.doubled:
        faults.wrong("doubled", what)
    for what in jobs.early:
        faults.wrong("early", what)
    for job in sorted(heard.put - jobs.items.keys()):
        faults.wrong("lost", f"job {job} was put, and is not in the log")
    for job in jobs.items:
        if not jobs.acknowledged[job]:
            faults.wrong("lost", f"job {job} was never done")
    _runs(faults, heard, jobs)


def _runs(faults: Faults, heard: Heard, jobs: History) -> None:
    for lease, times in heard.runs.items():
        if lease not in jobs.leases:
            faults.wrong("different", f"a job was begun under a lease {lease} that the log does not have")
        elif times > 1:
            faults.wrong(
                "doubled", f"job {jobs.leases[lease].number} was begun {times} times under one lease"
            )
    for lease, known in jobs.leases.items():
        if known.ended == "ack" and lease not in heard.done:
            faults.wrong("lost", f"job {known.number} was acknowledged, and not done under {lease}")
        # Its lease was held, so its end must be its acknowledgement.
        if known.ended != "ack" and lease in heard.done and heard.done[lease] not in heard.killed:
            faults.wrong(
                "doubled", f"job {known.number} was done, and its lease ended by {known.ended or 'its time'}"
            )
