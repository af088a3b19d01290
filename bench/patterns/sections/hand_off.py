"""The race that loses items: an item comes in the moment in which its taker gives up."""

from collections import Counter
from collections.abc import Iterator

from bench.measure.loops import run_on
from bench.measure.section import Section
from bench.patterns.race import cancelled, timed_out
from bench.patterns.race.cancelled import MOMENTS, Moment
from bench.patterns.race.contestants import CONTESTANTS, HandOffWithTimeout
from bench.patterns.race.fate import Fate
from bench.patterns.race.tally import Tally, heading
from bench.patterns.settings import PatternSettings

__all__ = ["SECTION"]

OFFSETS = len(MOMENTS) // 2


def lines(settings: PatternSettings) -> Iterator[Tally]:
    """For each loop and contestant: cancelled at each moment, then timed out in the pass of the put."""
    share = max(1, settings.races // OFFSETS // 2)
    for loop in settings.loops:
        for name in CONTESTANTS:
            tallies = []
            for moment in MOMENTS:
                tallies.append(_cancelled(name, loop, moment, share))
                yield tallies[-1]
            yield Tally.sum_of(tallies, "cancelled, all together")
            for put_first in (False, True):
                yield _timed_out(name, loop, share, put_first=put_first)


def _cancelled(name: str, loop: str, moment: Moment, rounds: int) -> Tally:
    async def run() -> tuple[Counter[Fate], int]:
        contestant = CONTESTANTS[name]()
        try:
            return await cancelled.run_rounds(contestant, moment, rounds)
        finally:
            contestant.close()

    fates, swallowed = run_on(loop, run())
    return _tally(name, loop, str(moment), fates, swallowed)


def _timed_out(name: str, loop: str, rounds: int, *, put_first: bool) -> Tally:
    async def run() -> Counter[Fate]:
        contestant = CONTESTANTS[name]()
        try:
            return await timed_out.run_rounds(contestant, rounds, put_first=put_first)
        finally:
            contestant.close()

    order = "after" if put_first else "before"
    return _tally(name, loop, f"timed out just {order} the put", run_on(loop, run()), 0)


def _tally(name: str, loop: str, moment: str, fates: Counter[Fate], swallowed: int) -> Tally:
    made = CONTESTANTS[name]
    ours = isinstance(made, type) and issubclass(made, HandOffWithTimeout)
    return Tally.of(fates, contestant=name, moment=moment, loop=loop, swallowed=swallowed, ours=ours)


SECTION = Section(
    name="hand-off",
    title="An item given to a taker that is cancelled, or times out, within three passes of the loop",
    timed=(
        "A count, not a time; each contestant runs the same rounds. A taker waits with a timeout, and an item "
        "is put. The taker's task is cancelled 0 to 3 passes of the loop before or after the put: as many "
        "rounds for each distance, half of them ahead of the steps that the earlier of the two set off, half "
        "behind. When the taker has ended, a next one comes. Or a busy loop lets the taker's timeout and the "
        "put fall into one pass. (On a busy machine a few of these rounds miss the pass or the order: not "
        "every interruption is seen, and a HandOff's timer that woke for something earlier reads the clock "
        "and may be ahead of the put.) Delivered: the taker has the item. Returned: the next one has it. "
        "Lost: neither has it. Swallowed: task.cancel() was accepted, yet the task went on with an item; a "
        "loop of such takers does not end at shutdown. Python 3.11's wait_for starts a task; if it is "
        "cancelled after that task has finished, it returns the item and forgets the cancellation. From 3.12 "
        "on it is asyncio.timeout. HandOff promises that no item is lost or doubled and no cancellation "
        "swallowed."
    ),
    lines=lines,
    heading=heading(),
)
