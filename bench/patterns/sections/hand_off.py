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
        "Nothing is timed, all is counted; the same rounds for each. A taker waits with a timeout; an item is "
        "put; the task of the taker is cancelled, 0 to 3 passes of the loop before or after (as many rounds for "
        "each, half of them ahead of the steps that the earlier of the two set off, half behind); when it has "
        "ended, a next taker comes. Or its own timeout and the put fall into one pass, since something held up "
        "the loop past both (on a busy machine a few of these rounds miss the pass or the order: not every "
        "interruption is seen, and HandOff's timer, if it was woken for something earlier, looks at the clock and "
        "may so be ahead of the put). "
        "Delivered: the taker has the item. Returned: the next one has it. Lost: neither. "
        "Swallowed: task.cancel() was accepted, yet the task went on with an item; a loop of such takers does "
        "not end at shutdown. Python 3.11's wait_for starts a task, and when it is cancelled after that has "
        "finished, returns the item and forgets the cancellation; from 3.12 on it is asyncio.timeout. "
        "Promised for HandOff: none lost, doubled or swallowed."
    ),
    lines=lines,
    heading=heading(),
)
