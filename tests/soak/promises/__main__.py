"""Ask, answer and read questions while everything is killed, and count what is lost, doubled, asked twice or early.

A round is a question: two askers in processes of their own submit it with PUT, hold until it ends and read the answer.
It is announced on a queue, from which answerers take it; they answer by verb or by link, some of them two at once who
differ. Its end is delivered on another queue, from which an asker takes it and reads once more. Of ten rounds one has
a deadline about when it is answered, one is left alone, and one is rescheduled and left alone.

About once a second one of three workers and one process of askers or answerers are killed with SIGKILL and started
again, each 8 s the server of the store is, and checkpoints are saved, some of which are killed. Clients hang up at each
20th request. Then all that was shown is compared with the log, folded from its first entry, and with a last read.

Lost: accepted or shown, and not what the log has; or never ended, announced or delivered. Doubled: two ends, two
accepted answers, or two items of an end. Asked twice: two submissions or two items of one. Early: expired before its
time by the log's clock or the askers', or delivered before it ended. Different: any other answer that has no reason, a
worker that ended by itself, a digest that is not the log's. One of these and the exit code is 1.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from bench.measure.command import positive
from bench.measure.loops import UVLOOP, run_on
from tests.cluster.servers import Postgres, RedisServer, Server
from tests.soak.chaos.answers import Faults
from tests.soak.promises.killing import Outcome, run

COLUMNS = (
    "store, rounds", "seconds", "entries", "completed, expired",
    "workers, askers, answerers, engines killed", "checkpoints saved",
    "lost", "doubled", "asked twice", "early", "different", "unanswered",
)  # fmt: skip
FAULTS = ("lost", "doubled", "asked twice", "early", "different")
SERVERS = {"postgres": Postgres, "redis": RedisServer}


def main() -> int:
    """Print one row of counts, where rounds were interrupted, and the first faults; 1 if there were any."""
    parser = parser_of("promises", __doc__)
    parser.add_argument("--rounds", type=positive, default=100)
    options = parser.parse_args()
    with store_named(options.store) as (url, engine):
        outcome = run_on(UVLOOP, run(url, engine, options.rounds, options.seed))
    return report(
        COLUMNS, f"{options.store}, {options.rounds:,}", figures(outcome), outcome.faults, outcome.interrupted
    )


def parser_of(name: str, purpose: str | None) -> argparse.ArgumentParser:
    """Return what parses the options that soaks on a store share."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.soak.{name}",
        description=purpose,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=["sqlite", *SERVERS], default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def report(
    columns: Sequence[str], asked: str, row: Sequence[str], faults: Faults, interrupted: Counter[str]
) -> int:
    """Print a row of counts, where rounds were interrupted, and the first faults; return 1 if there were any."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    print(f"| {asked} | {' | '.join(row)} |")
    print("interrupted:", *(f"{count} at {step}," for step, count in sorted(interrupted.items())))
    print(*faults.examples, sep="\n")
    return int(any(faults.counts[fault] for fault in FAULTS))


@contextmanager
def store_named(name: str) -> Iterator[tuple[str, Server | None]]:
    """Start an empty store that loses nothing that it has answered; removed at the end."""
    if name in SERVERS:
        with closing(SERVERS[name]()) as server:
            server.start()
            yield server.url, server
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/store.db", None


def figures(outcome: Outcome) -> list[str]:
    """The row's counts, as in `COLUMNS` after the first."""
    counts, ends = outcome.faults.counts, outcome.ends
    killed = (counts["killed"], *(counts[f"killed {who}"] for who in ("asker", "answerer", "engine")))
    rows = (
        (round(outcome.seconds),), (outcome.entries,), (ends["completed"], ends["expired"]), killed, (counts["saved"],),
        *((counts[name],) for name in (*FAULTS, "unanswered")),
    )  # fmt: skip
    return [", ".join(f"{figure:,}" for figure in row) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
