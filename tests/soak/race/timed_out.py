"""Rounds in which the taker's own timeout and the put fall into the same pass of the loop.

The loop is held up past both, as by a slow callback, and then finds both due. So that this does not take some
milliseconds a hundred thousand times, many rounds share one hold-up, each with a key of its own.
"""

import asyncio
import time
from collections import Counter
from itertools import pairwise

from tests.soak.race.contestants import Contestant
from tests.soak.race.fate import Fate, fate_of, passes, until_done

__all__ = ["run_rounds"]

BATCH = 200  # the library expires 256 in a pass; more would fall into the next
LEAD = 0.03  # seconds in which all takers must have begun to wait
GAP = 0.005  # seconds between put and timeout: a timer may be late by a tick of 1 ms and some roundings
STEP = 0.001  # seconds that setting one deadline may take; with more it may be on the other's wrong side
PATIENCE = 1_000  # batches in vain
LONG = 60.0  # seconds


async def run_rounds(contestant: Contestant, rounds: int, *, put_first: bool) -> Counter[Fate]:
    """Run so many; returns the fates of the items.

    Args:
        contestant: Who takes part.
        rounds: How many.
        put_first: Whether the put is due before the timeout, or after.
    """
    fates: Counter[Fate] = Counter()
    in_vain = 0
    while (left := rounds - fates.total()) > 0:
        batch = await _run_batch(contestant, min(left, BATCH), put_first=put_first)
        fates.update(batch)
        in_vain = 0 if batch else in_vain + 1
        if in_vain > PATIENCE:
            raise RuntimeError(
                f"{in_vain} times in a row it took more than {LEAD - GAP} s to set {BATCH} deadlines; try again when "
                "the machine has less to do"
            )
    return fates


async def _run_batch(contestant: Contestant, count: int, *, put_first: bool) -> list[Fate]:
    """The fates of those rounds that were not seen to be interrupted: what comes when is as it was meant."""
    loop = asyncio.get_running_loop()
    deadline = time.monotonic() + LEAD
    put_at = deadline - GAP if put_first else deadline + GAP
    items = [object() for _ in range(count)]
    set_at: list[float] = []  # when the deadlines were set: of takers first, then of puts
    brought: set[int] = set()

    async def take(key: int) -> object:
        set_at.append(time.monotonic())
        return await contestant.take(key, deadline - time.monotonic())

    def put(key: int) -> None:
        brought.add(key)
        contestant.put(key, items[key])

    takers = [loop.create_task(take(key)) for key in range(count)]
    await passes(1)
    for key in range(count):
        set_at.append(time.monotonic())
        loop.call_later(put_at - time.monotonic(), put, key)
    set_at.append(time.monotonic())
    await passes(1)  # for tasks of the takers' own
    in_time = time.monotonic() < deadline - GAP
    time.sleep(max(0.0, deadline + 2 * GAP - time.monotonic()))  # noqa: ASYNC251 - the loop is held up on purpose
    await passes(2)  # this task is ahead of the timers in the first
    steps = [after - before for before, after in pairwise(set_at)]
    intended = {key for key in brought if in_time and steps[key] < STEP and steps[count + key] < STEP}
    while len(brought) < count:  # noqa: ASYNC110 - only after an interruption
        await asyncio.sleep(GAP)
    fates = [await _fate(contestant, key, items[key], takers[key]) for key in range(count)]
    return [fates[key] for key in sorted(intended)]


async def _fate(contestant: Contestant, key: int, item: object, taker: asyncio.Task[object]) -> Fate:
    """Who has the item, once the taker has ended and the next one has come."""
    await until_done(taker)
    next_taker = asyncio.get_running_loop().create_task(contestant.take(key, LONG))
    await until_done(next_taker)
    return fate_of(item, (taker, next_taker))
