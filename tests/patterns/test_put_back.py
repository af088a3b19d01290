"""`HandOff.put_back`: what a taker could not use is in front again, and never refused."""

import asyncio

import pytest

from purgatory_async import PurgatoryFull
from purgatory_async.patterns import HandOff
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


async def test_it_goes_in_front_of_all_that_is_kept(purgatory):
    jobs = HandOff(purgatory)
    jobs.put("a", 1)
    jobs.put("a", 2)
    taken = await jobs.take("a")
    assert jobs.put_back(*taken) is False
    assert jobs.clear() == [("a", 1), ("a", 2)]


async def test_it_goes_to_a_taker_that_waits(purgatory):
    jobs = HandOff(purgatory)
    taker = asyncio.create_task(jobs.take("a"))
    await settle()
    assert jobs.put_back("a", "again") is True
    assert await taker == ("a", "again")


async def test_it_has_its_place_though_no_other_item_would_be_kept(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    jobs.put("a", 1)
    jobs.put_back("a", 0)
    with pytest.raises(PurgatoryFull):
        jobs.put("a", 2)
    assert jobs.clear() == [("a", 0), ("a", 1)]


async def test_the_one_put_back_last_is_the_foremost(purgatory):
    jobs = HandOff(purgatory)
    jobs.put_back("a", 2)
    jobs.put_back("a", 1)
    assert [await jobs.take("a") for _ in range(2)] == [("a", 1), ("a", 2)]


async def test_an_item_is_kept_when_no_taker_can_come(purgatory):
    jobs = HandOff(purgatory)
    purgatory.close()
    assert jobs.put_back("a", 1) is False
    assert jobs.clear() == [("a", 1)]
