"""Restart workers with a `Durable` one after the other, under load, and count what is lost, doubled or early.

Four processes on one store, without a service: each asks questions and submits orders, and waits for their ends;
answers, pays and reads what the queues tell; puts jobs and does them with `work`. Each second one of them is restarted,
in turn: with SIGTERM, at which it leaves, or with SIGKILL. Each round is asked by two of them. In the end they may
finish. Then all that was told is compared with the log, folded from its first entry, and with a last read.

Lost: told as done, and not what the log has; or never ended, announced, delivered or done. Doubled: two ends, two
accepted answers, two items of an end; a job that was begun twice under one lease, or done and not acknowledged by a
worker that was not killed. Asked twice: two submissions or two items of one. Early: expired, or leased again, before
its time. Different: any other answer that has no reason, a worker that did not leave with 0, a digest that is not the
log's. One of these and the exit code is 1.
"""

import sys

from bench.measure.command import positive
from bench.measure.loops import UVLOOP, run_on
from tests.soak.promises.__main__ import FAULTS, parser_of, report, store_named
from tests.soak.rolling.run import Outcome, run
from tests.soak.rolling.worker import FAULTS as PLANTED

COLUMNS = (
    "store, seconds", "entries", "workers left, killed", "completed, expired", "jobs put, leased, done",
    *FAULTS, "unanswered",
)  # fmt: skip


def main() -> int:
    """Print one row of counts, the steps that were interrupted, and the first faults; 1 if there were any."""
    parser = parser_of("rolling", __doc__)
    parser.add_argument("--seconds", type=positive, default=20)
    parser.add_argument(
        "--fault", choices=PLANTED, default="", help="let the workers have a fault, to see it counted"
    )
    options = parser.parse_args()
    with store_named(options.store) as (url, _):
        outcome = run_on(UVLOOP, run(url, options.seconds, options.seed, options.fault))
    return report(
        COLUMNS, f"{options.store}, {options.seconds}", figures(outcome), outcome.faults, outcome.interrupted
    )


def figures(outcome: Outcome) -> list[str]:
    """The row's counts, as in `COLUMNS` after the first."""
    counts, jobs = outcome.faults.counts, outcome.log.jobs
    states = [of.ends[0][0] for of in outcome.log.rounds.values() if of.ends]
    rows = (
        (outcome.entries,), (counts["left"], counts["killed"]), (states.count("completed"), states.count("expired")),
        (len(jobs.items), len(jobs.leases), sum(jobs.acknowledged.values())),
        *((counts[name],) for name in (*FAULTS, "unanswered")),
    )  # fmt: skip
    return [", ".join(f"{figure:,}" for figure in row) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
