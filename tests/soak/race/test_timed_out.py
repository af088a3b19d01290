"""A timeout and a put in one pass: a round does not count if an interruption may have changed the order."""

import time

import pytest

from tests.soak.race import timed_out
from tests.soak.race.contestants import FutureUnderTimeout, HandOffUnderTimeout, HandOffWithTimeout
from tests.soak.race.fate import Fate
from tests.soak.race.timed_out import run_rounds

pytestmark = pytest.mark.slow  # real time

ROUNDS = 50


async def fates_of(contestant, *, put_first):
    try:
        return await run_rounds(contestant, ROUNDS, put_first=put_first)
    finally:
        contestant.close()


@pytest.mark.asyncio
async def test_a_future_loses_a_result_set_just_before_its_timeout():
    assert (await fates_of(FutureUnderTimeout(), put_first=True))[Fate.LOST] > ROUNDS / 2


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [HandOffWithTimeout, HandOffUnderTimeout, FutureUnderTimeout])
async def test_an_item_after_the_timeout_goes_to_the_next_taker(make):
    fates = await fates_of(make(), put_first=False)
    assert fates.total() == ROUNDS
    assert fates[Fate.RETURNED] > ROUNDS / 2


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [HandOffWithTimeout, HandOffUnderTimeout])
@pytest.mark.parametrize("put_first", [True, False], ids=["put-first", "timeout-first"])
async def test_a_hand_off_loses_and_doubles_nothing(make, put_first):
    fates = await fates_of(make(), put_first=put_first)
    assert fates[Fate.DELIVERED] + fates[Fate.RETURNED] == ROUNDS


class SlowAtFirst(HandOffWithTimeout):
    """The first of its takers is interrupted while it sets its timeout."""

    begun = 0

    async def take(self, key, timeout):
        self.begun += 1
        if self.begun == 1:
            time.sleep(2 * timed_out.STEP)  # noqa: ASYNC251 - it is the interruption
        return await super().take(key, timeout)


@pytest.mark.asyncio
async def test_a_round_that_was_interrupted_does_not_count():
    contestant = SlowAtFirst()
    assert (await fates_of(contestant, put_first=True)).total() == ROUNDS
    assert contestant.begun >= 2 * (ROUNDS + 1)


class AlwaysSlow(HandOffWithTimeout):
    """No taker takes long to begin, but all of them together do."""

    async def take(self, key, timeout):
        time.sleep(timed_out.STEP / 4)  # noqa: ASYNC251 - it is the interruption
        return await super().take(key, timeout)


@pytest.mark.asyncio
async def test_on_a_slow_machine_the_race_gives_up_and_explains(monkeypatch):
    monkeypatch.setattr(timed_out, "PATIENCE", 1)
    contestant = AlwaysSlow()
    with pytest.raises(RuntimeError, match="2 times in a row"):
        await run_rounds(contestant, timed_out.BATCH, put_first=True)
    contestant.close()
