"""Race a put against the end of its taker, and count what becomes of the items.

Each contestant runs the same rounds. A taker waits with a timeout, and an item is put. The taker's task is cancelled 0
to 3 passes of the loop before or after the put: as many rounds for each distance, half of them ahead of the steps that
the earlier of the two set off, half behind. When the taker has ended, a next one comes. Or a busy loop lets the taker's
timeout and the put fall into one pass. (On a busy machine a few of these rounds miss the pass or the order: not every
interruption is seen, and a HandOff's timer that woke for something earlier may be ahead of the put.)

Delivered: the taker has the item. Returned: the next one has it. Lost: neither has it. Doubled: both have it.
Swallowed: task.cancel() was accepted, yet the task went on with an item; a loop of such takers does not end at
shutdown. Python 3.11's wait_for starts a task; if it is cancelled after that task has finished, it returns the item and
forgets the cancellation. From 3.12 on it is asyncio.timeout. HandOff promises that no item is lost or doubled and no
cancellation swallowed: otherwise the exit code is 1.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

from bench.measure.command import loops, positive
from bench.measure.loops import LOOPS, run_on
from tests.soak.race import cancelled, timed_out
from tests.soak.race.cancelled import MOMENTS
from tests.soak.race.contestants import CONTESTANTS, HandOffWithTimeout
from tests.soak.race.tally import Tally, heading


def main() -> int:
    """Print a row for each contestant and moment; 1 if the library lost, doubled or swallowed anything."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.race",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=positive, default=100_000, help="of each contestant")
    parser.add_argument("--loops", type=loops, default=LOOPS, help=f"of {','.join(LOOPS)}; default: all")
    options = parser.parse_args()
    print(heading())
    faults = 0
    for loop in options.loops:
        for name in CONTESTANTS:
            for tally in tallies(name, loop, options.rounds // len(MOMENTS)):
                print(tally, flush=True)
                faults += tally.faults if tally.ours else 0
    return int(faults > 0)


def tallies(name: str, loop: str, rounds: int) -> Iterator[Tally]:
    """Race a contestant at each moment of a cancellation, then with a timeout in the pass of the put."""
    made = CONTESTANTS[name]
    ours = isinstance(made, type) and issubclass(made, HandOffWithTimeout)
    row = partial(Tally, contestant=name, loop=loop, ours=ours)
    total, swallowed = Counter(), 0
    for moment in MOMENTS:
        fates, survived = run_on(loop, ended(made, cancelled.run_rounds, moment, rounds))
        yield row(moment=str(moment), fates=fates, swallowed=survived)
        total, swallowed = total + fates, swallowed + survived
    yield row(moment="cancelled, all together", fates=total, swallowed=swallowed)
    for order, put_first in (("before", False), ("after", True)):
        fates = run_on(loop, ended(made, timed_out.run_rounds, rounds, put_first=put_first))
        yield row(moment=f"timed out just {order} the put", fates=fates)


async def ended(made, run, *arguments, **keywords):
    """Run with a new contestant, which is closed afterwards."""
    contestant = made()
    try:
        return await run(contestant, *arguments, **keywords)
    finally:
        contestant.close()


if __name__ == "__main__":
    sys.exit(main())
