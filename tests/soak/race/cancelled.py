"""Rounds that cancel the taking task some loop passes before or after the put."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.soak.race.contestants import Contestant
from tests.soak.race.fate import Fate, fate_of, passes, until_done

__all__ = ["MOMENTS", "Moment", "run_rounds"]

KEY = 0
LONG = 60.0  # seconds; a timeout that never expires
STARTED = 2  # passes until a taker waits, also one that starts a task of its own


@dataclass(frozen=True, slots=True)
class Moment:
    """When the cancellation comes, seen from the put.

    Args:
        passes: How many passes of the loop lie between the two; none: they are in the same one.
        put_first: Which of the two comes first.
    """

    passes: int
    put_first: bool

    def __str__(self) -> str:
        order = "after" if self.put_first else "before"
        if self.passes == 0:
            return f"cancelled just {order} the put"
        return f"cancelled {self.passes} {'pass' if self.passes == 1 else 'passes'} {order}"


# In order of time: three passes before, up to three passes after.
MOMENTS = (
    *(Moment(offset, put_first=False) for offset in (3, 2, 1, 0)),
    *(Moment(offset, put_first=True) for offset in (0, 1, 2, 3)),
)


async def run_rounds(contestant: Contestant, moment: Moment, rounds: int) -> tuple[Counter[Fate], int]:
    """Run so many; returns the fates of the items, and how many cancellations were swallowed.

    Every other round the later of the two comes in its pass before whatever the earlier one set off, such as
    the step of a task that it woke; in the others after it.
    """
    fates: Counter[Fate] = Counter()
    swallowed = 0
    for number in range(rounds):
        fate, was_swallowed = await _run_round(contestant, moment, ahead=number % 2 == 0)
        fates[fate] += 1
        swallowed += was_swallowed
    return fates, swallowed


async def _run_round(contestant: Contestant, moment: Moment, *, ahead: bool) -> tuple[Fate, bool]:
    create_task = asyncio.get_running_loop().create_task
    item = object()
    taker = create_task(contestant.take(KEY, LONG))
    await passes(STARTED)
    cancelled: list[bool] = []

    def put() -> None:
        contestant.put(KEY, item)

    def cancel() -> None:
        cancelled.append(taker.cancel())  # False: it has finished already

    earlier, later = (put, cancel) if moment.put_first else (cancel, put)
    _call(earlier, later, moment.passes, ahead=ahead)
    await passes(moment.passes + 1)
    await until_done(taker)
    next_taker = create_task(contestant.take(KEY, LONG))
    await until_done(next_taker)
    return fate_of(item, (taker, next_taker)), cancelled[0] and not taker.cancelled()


def _call(earlier: Callable[[], None], later: Callable[[], None], gap: int, *, ahead: bool) -> None:
    """Call one in the next pass, the other so many passes later."""
    call_soon = asyncio.get_running_loop().call_soon
    if ahead and gap:
        call_soon(_count_down, gap, later)
        call_soon(earlier)
    else:
        call_soon(earlier)
        call_soon(_count_down, gap, later)


def _count_down(gap: int, callback: Callable[[], None]) -> None:
    if gap:
        asyncio.get_running_loop().call_soon(_count_down, gap - 1, callback)
    else:
        callback()
