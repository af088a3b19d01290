"""Workers and connections are killed all the time: what clients lose."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.cluster.chaos.reign import Outcome, reign
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import NotInstalled, store_named
from bench.measure.line import Skipped, Verdict
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from bench.service.latencies import percentile

__all__ = ["SECTION"]

COLUMNS = (
    "store, seconds", "entries", "workers killed", "connections killed", "checkpoints saved",
    "repeated entries dropped", "answers", "attempts repeated", "unanswered", "lateness p99, ms",
    "lost", "doubled", "early", "different", "digests compared",
)  # fmt: skip
FAULTS = ("lost", "doubled", "early", "different")


@dataclass(frozen=True, slots=True)
class Counted:
    """A row of the table, and what was wrong.

    Attributes:
        cells: As in `COLUMNS`.
        faults: How many there were.
        examples: The first of them.
    """

    cells: tuple[str, ...]
    faults: int
    examples: list[str] = field(default_factory=list[str])

    @property
    def verdict(self) -> Verdict:
        """Whether nothing was wrong."""
        return Verdict.MISSED if self.faults else Verdict.MET

    def __str__(self) -> str:
        return "\n".join([f"| {' | '.join(self.cells)} |", *self.examples])


def lines(settings: ClusterSettings) -> Iterator[Row]:
    """One row."""
    try:
        with store_named(settings.store) as store:
            outcome = run_on(UVLOOP, reign(store, settings.seconds, settings.seed))
    except NotInstalled as missing:
        yield Skipped(str(missing))
    else:
        yield _row(settings, outcome)


def _row(settings: ClusterSettings, outcome: Outcome) -> Counted:
    counts, history = outcome.answers.counts, outcome.history
    late_ms = history.lateness_ms()
    figures = (
        outcome.entries, counts["killed"], counts["cut"], counts["saved"], history.repeated, outcome.answered,
        outcome.repeated, counts["unanswered"], round(percentile(late_ms, 0.99)) if late_ms else 0,
        *(counts[fault] for fault in FAULTS), history.compared,
    )  # fmt: skip
    cells = (f"{settings.store}, {settings.seconds}", *(f"{figure:,}" for figure in figures))
    return Counted(cells, sum(counts[fault] for fault in FAULTS), outcome.answers.examples)


SECTION = Section(
    name="chaos",
    title="Three workers on one store, killed all the time",
    timed=(
        "Clients submit, wait, complete, cancel, signal, read, put, take, acknowledge and return. They hang up at each "
        "20th request; what is not answered they repeat at any worker. Each second one worker is killed with SIGKILL "
        "and started again; the connections of a server are killed each 100 ms; checkpoints are saved, and some of "
        "those processes killed. Then every answer is compared with the log, folded from its first entry, and with "
        "what all workers show in the end. Lost: answered, and not in the log or not shown; or due, and never "
        "happened. Doubled: an effect that happened twice. Early: expired, or given to another taker, before its time "
        "by the log's clock or the client's. Different: any other answer that does not follow from the log, a stale "
        "read, a worker that ended by itself, a digest that is not the log's. One of these and the exit code is 1."
    ),
    lines=lines,
    heading=f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}",
)
