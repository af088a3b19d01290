"""Both sides of the comparison release the same waiters; a sample ends with no waiter left."""

import asyncio

import pytest

from bench.patterns.watermark_samples import OneKey, advance, begin
from purgatory_async.patterns import Watermark

pytestmark = pytest.mark.asyncio

SIDES = pytest.mark.parametrize("make", [Watermark, OneKey])


@SIDES
async def test_an_advance_releases_only_the_values_it_reaches(make):
    async with make() as mark:
        tasks = [asyncio.ensure_future(mark.reach(value, 60.0)) for value in (3, 1, 2, 5)]
        await asyncio.sleep(0)
        assert [mark.advance(2), mark.advance(4), mark.advance(4), mark.advance(9)] == [2, 1, 0, 1]
        await asyncio.gather(*tasks)


@SIDES
@pytest.mark.parametrize("step", [1, 10, 100])
async def test_a_sample_of_advances_releases_every_waiter(make, step):
    before = asyncio.all_tasks()
    assert await advance(make, waiters=100, step=step, times=1, seed=1)() > 0
    assert asyncio.all_tasks() == before


@SIDES
async def test_a_sample_of_beginnings_releases_every_waiter(make):
    before = asyncio.all_tasks()
    assert await begin(make, waiters=100, seed=1)() > 0
    assert asyncio.all_tasks() == before


class LetsNobodyGo(Watermark):
    """An advance that does nothing would be fast."""

    def advance(self, value):
        super().advance(value)
        return 0


async def test_an_advance_that_does_not_do_its_work_is_no_sample():
    with pytest.raises(AssertionError, match="0 were woken by a step of 10"):
        await advance(LetsNobodyGo, waiters=100, step=10, times=1, seed=1)()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
