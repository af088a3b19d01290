"""What the proposal's load looks like from inside: ``python -m bench.proposal.journal DIR``.

The library is run once for each case with a journal. Nothing is compared, and no price is measured: a journal has its
own. It reports what no counter of the benchmark knows, from the records alone: how requests ended, how late those
were that expired, how often each was put into a bucket of the wheel. Where Spark is installed, ``purgatory pipeline
report`` makes its page of each journal, with curves over time and histograms.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.designs.ours import OurPurgatory
from bench.measure.extra import needing
from bench.measure.loops import LOOPS, run_on
from bench.proposal.callbacks import callback_contestant
from bench.proposal.contestant import Tally
from bench.proposal.feed import NS_PER_MS, Feed
from bench.proposal.point import CASES, Point
from purgatory_async import Timer

with needing("spark"):
    import numpy as np

    from bench.proposal.options import positive
    from bench.proposal.run import load, until_ended
    from purgatory_async.journal import Journal, JournalError, read_journal
    from purgatory_async.journal.schema import Outcome

__all__ = ["keep", "main", "summary"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep a journal of each case, summarise it, and make its report.

    Returns:
        0; 2 if a directory exists or a journal fails, with a line on standard error; the exit code of a failed report.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.proposal.journal", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="takes a directory for each case")
    parser.add_argument("--rate", type=positive, default=10_000, help="requests offered a second")
    parser.add_argument("--requests", type=positive, default=50_000, help="of each case")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[0])
    options = parser.parse_args(arguments)
    for case in CASES:
        place: Path = options.directory / case
        if place.exists():
            sys.stderr.write(f"{place} exists; name a new directory\n")
            return 2
        point = Point(
            contestant=OurPurgatory.name,
            loop=options.loop,
            case=case,
            rate=options.rate,
            requests=options.requests,
        )
        try:
            run_on(point.loop, keep(point, place / "journal"))
        except JournalError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        print(f"{case}, {point.offered}, {point.requests:,} requests: {summary(place / 'journal')}")
        failed = _report(place)
        if failed:
            return failed
    return 0


async def keep(point: Point, journal: Path) -> Tally:
    """Run a point with a journal.

    Args:
        point: A point of the library.
        journal: A directory; is made.

    Returns:
        What the requests themselves counted.
    """
    tally = Tally()
    arrivals_ns, latencies_ms = load(point)
    kept: list[Journal] = []

    def observed(timer: Timer) -> Journal:
        kept.append(Journal(journal, timer=timer))
        return kept[0]

    contestant = callback_contestant(point, tally, observed_by=observed)
    try:
        await Feed(arrivals_ns, latencies_ms, point.timeout_ms, contestant.submit, contestant.answer).run()
        await until_ended(tally)
    finally:
        contestant.close()
        kept[0].close()
    return tally


def summary(journal: Path) -> str:
    """Summarise the records of a journal in a line."""
    ends = [record for record in read_journal(journal) if isinstance(record, Outcome)]
    counts = Counter(end.outcome for end in ends)
    late_ms = [end.lateness_ns / NS_PER_MS for end in ends if end.lateness_ns is not None]
    p50, p99 = np.quantile(late_ms, (0.5, 0.99)) if late_ms else (np.nan, np.nan)
    inserts = Counter(end.inserts for end in ends)
    return (
        ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
        + f"; expired {p50:.2f} ms late at the median, {p99:.2f} at the 99th percentile; put into a bucket "
        + ", ".join(f"{times} times: {count:,}" for times, count in sorted(inserts.items()))
    )


def _report(place: Path) -> int:
    """Let Spark make the page of a journal, if it is installed; returns 0 if nothing went wrong."""
    if find_spec("pyspark") is None:
        print('  no report: run pip install "purgatory-async[spark]"')
        return 0
    report = place / "report"
    command = [
        "-m",
        "purgatory_async",
        "pipeline",
        "report",
        "--journal",
        str(place / "journal"),
        "--out",
        str(report),
    ]
    done = subprocess.run([sys.executable, *command], check=False, stdout=subprocess.DEVNULL)
    if not done.returncode:
        print(f"  {report / 'report.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
