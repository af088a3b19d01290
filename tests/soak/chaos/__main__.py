"""Kill workers and connections all the time, and count what clients lose.

Three workers share one store. Clients submit, wait, complete, cancel, signal, read, put, take, acknowledge and return;
they hang up at each 20th request, and repeat at any worker what is not answered. Each second one worker is killed with
SIGKILL and started again; the connections of a server are killed each 100 ms; checkpoints are saved, and some of those
processes killed. Then every answer is compared with the log, folded from its first entry, and with what all workers
show in the end.

Lost: answered, and not in the log or not shown; or due, and never happened. Doubled: an effect that happened twice.
Early: expired, or given to another taker, before its time by the log's clock or the client's. Different: any other
answer that does not follow from the log, a stale read, a worker that ended by itself, a digest that is not the log's.
One of these and the exit code is 1.
"""

import argparse
import sys

from bench.cluster.stores import STORES, NotInstalled, store_named
from bench.measure.command import positive
from bench.measure.loops import UVLOOP, run_on
from bench.service.latencies import percentile
from tests.soak.chaos.reign import Outcome, reign

COLUMNS = (
    "store, seconds", "entries", "workers killed", "connections killed", "checkpoints saved",
    "repeated entries dropped", "answers", "attempts repeated", "unanswered", "lateness p99, ms",
    "lost", "doubled", "early", "different", "digests compared",
)  # fmt: skip
FAULTS = ("lost", "doubled", "early", "different")


def main() -> int:
    """Print one row of counts and the first faults; 1 if there were any, or if the store is not installed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=list(STORES), default="sqlite")
    parser.add_argument("--seconds", type=positive, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        with store_named(options.store) as store:
            outcome = run_on(UVLOOP, reign(store, options.seconds, options.seed))
    except NotInstalled as missing:
        print(missing)
        return 1
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    print(f"| {options.store}, {options.seconds} | {' | '.join(figures(outcome))} |")
    print(*outcome.answers.examples, sep="\n")
    return int(any(outcome.answers.counts[fault] for fault in FAULTS))


def figures(outcome: Outcome) -> list[str]:
    """The row's counts, as in `COLUMNS` after the first."""
    counts, history = outcome.answers.counts, outcome.history
    late_ms = history.lateness_ms()
    found = (
        outcome.entries, counts["killed"], counts["cut"], counts["saved"], history.repeated, outcome.answered,
        outcome.repeated, counts["unanswered"], round(percentile(late_ms, 0.99)) if late_ms else 0,
        *(counts[fault] for fault in FAULTS), history.compared,
    )  # fmt: skip
    return [f"{figure:,}" for figure in found]


if __name__ == "__main__":
    sys.exit(main())
