"""The race detects every fault: an item lost, an item doubled, a cancellation swallowed."""

import asyncio
import sys
from collections import Counter

import pytest

from purgatory_async.patterns import HandOff
from tests.soak.race.cancelled import MOMENTS, Moment, run_rounds
from tests.soak.race.contestants import CONTESTANTS, HandOffWithTimeout, QueueUnderTimeout
from tests.soak.race.fate import Fate

ROUNDS = 20
HALF = ROUNDS // 2

DELIVERED = ({Fate.DELIVERED: ROUNDS}, 0)
RETURNED = ({Fate.RETURNED: ROUNDS}, 0)
LOST = ({Fate.LOST: ROUNDS}, 0)
HALF_RETURNED = ({Fate.DELIVERED: HALF, Fate.RETURNED: HALF}, 0)
HALF_LOST = ({Fate.DELIVERED: HALF, Fate.LOST: HALF}, 0)

# Three passes before the put, up to three passes after.
OF_A_HAND_OFF = [*[RETURNED] * 5, HALF_RETURNED, DELIVERED, DELIVERED]
OF_A_LOSER = [*[RETURNED] * 4, LOST, HALF_LOST, DELIVERED, DELIVERED]

JUST_AFTER = Moment(0, put_first=True)


async def counted(contestant):
    """Fates and swallowed cancellations at each moment."""
    try:
        return [await run_rounds(contestant, moment, ROUNDS) for moment in MOMENTS]
    finally:
        contestant.close()


class KeepsWhatItWasGiven(HandOff):
    """The fault: a taker that is cancelled gives nothing back."""

    async def take(self, *keys, timeout=None):
        picked = []

        def pick():
            picked[:] = filter(None, [self._items.pick(keys)])
            return bool(picked)

        await self._purgatory.wait(*keys, until=pick, timeout=timeout)
        key, _, item = picked[0]
        return key, item


class Loser(HandOffWithTimeout):
    def __init__(self):
        super().__init__()
        self.hand_off = KeepsWhatItWasGiven(self.purgatory)
        self.put = self.hand_off.put


class Doubler(QueueUnderTimeout):
    def put(self, key, item):
        super().put(key, item)
        super().put(key, item)


class Swallower(QueueUnderTimeout):
    async def take(self, key, timeout):
        try:
            return await super().take(key, timeout)
        except asyncio.CancelledError:
            return await super().take(key, timeout)


class Broken(QueueUnderTimeout):
    async def take(self, key, timeout):
        raise LookupError(f"no queue {key}")


@pytest.mark.asyncio
async def test_a_hand_off_that_does_not_give_back_is_counted_as_losing():
    assert await counted(Loser()) == OF_A_LOSER


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [name for name in CONTESTANTS if name.startswith("HandOff")])
async def test_a_hand_off_loses_doubles_and_swallows_nothing(name):
    assert await counted(CONTESTANTS[name]()) == OF_A_HAND_OFF


@pytest.mark.asyncio
async def test_a_queue_under_a_timeout_block_loses_nothing_either():
    assert await counted(CONTESTANTS["asyncio.Queue.get() under asyncio.timeout"]()) == OF_A_HAND_OFF


@pytest.mark.asyncio
async def test_wait_for_on_a_queue_swallows_cancellations_on_3_11():
    found = await counted(CONTESTANTS["asyncio.Queue.get() under wait_for"]())
    delivered = {Fate.DELIVERED: ROUNDS}
    swallowing = [*[RETURNED] * 4, *[(delivered, ROUNDS)] * 3, (delivered, HALF)]
    assert found == (swallowing if sys.version_info < (3, 12) else OF_A_HAND_OFF)


@pytest.mark.asyncio
async def test_a_queue_in_its_own_task_loses_until_the_waiter_has_run():
    found = await counted(CONTESTANTS["asyncio.Queue.get() in asyncio.wait"]())
    assert found == [*[RETURNED] * 4, *[LOST] * 3, HALF_LOST]


@pytest.mark.asyncio
async def test_a_future_under_a_timeout_block_loses_what_it_was_set_to():
    assert await counted(CONTESTANTS["a future in a dict under asyncio.timeout"]()) == OF_A_LOSER


@pytest.mark.asyncio
async def test_an_item_that_two_takers_get_is_counted_as_doubled():
    fates, _ = await run_rounds(Doubler(), Moment(3, put_first=True), ROUNDS)
    assert fates == {Fate.DOUBLED: ROUNDS}


@pytest.mark.asyncio
async def test_a_survived_cancellation_counts_as_swallowed():
    assert await run_rounds(Swallower(), JUST_AFTER, ROUNDS) == ({Fate.DELIVERED: ROUNDS}, ROUNDS)


@pytest.mark.asyncio
async def test_a_cancellation_that_came_too_late_is_not_swallowed():
    assert await run_rounds(QueueUnderTimeout(), Moment(3, put_first=True), ROUNDS) == DELIVERED


@pytest.mark.asyncio
async def test_what_a_taker_raises_otherwise_ends_the_race():
    with pytest.raises(LookupError, match="no queue 0"):
        await run_rounds(Broken(), JUST_AFTER, 1)


@pytest.mark.asyncio
async def test_nothing_of_a_race_stays_behind():
    before = asyncio.all_tasks()
    contestant = HandOffWithTimeout()
    for moment in MOMENTS:
        await run_rounds(contestant, moment, 2)
    assert (contestant.purgatory.pending, len(contestant.hand_off)) == (0, 0)
    assert asyncio.all_tasks() == before
    contestant.close()


def test_there_are_four_offsets_each_in_both_orders():
    assert Counter(moment.passes for moment in MOMENTS) == dict.fromkeys(range(4), 2)
    assert len(set(MOMENTS)) == 8


def test_a_moment_says_when_it_is():
    assert [str(moment) for moment in MOMENTS[2:6]] == [
        "cancelled 1 pass before",
        "cancelled just before the put",
        "cancelled just after the put",
        "cancelled 1 pass after",
    ]
