"""Every hand-off gives each item to one taker; a sample leaves nothing behind."""

import asyncio

import pytest

from bench.patterns.hand_off_samples import (
    drained,
    hand_off,
    idle_takers,
    lying,
    queue,
    queue_under_timeout,
)

pytestmark = pytest.mark.asyncio

WAYS = pytest.mark.parametrize(
    "way",
    [hand_off(None), hand_off(60.0), queue, queue_under_timeout],
    ids=["hand-off", "hand-off-60-s", "queue", "queue-60-s"],
)


@WAYS
async def test_items_that_lie_there_are_taken_in_order(way):
    async with way() as (put, take):
        for item in range(3):
            put(item)
        taken = [await take() for _ in range(3)]
    assert [item[1] if isinstance(item, tuple) else item for item in taken] == [0, 1, 2]


@WAYS
@pytest.mark.parametrize(
    "sample",
    [
        lambda way: lying(way, items=20, backlog=1),
        lambda way: lying(way, items=20, backlog=20),
        lambda way: idle_takers(way, takers=1, items=20),
        lambda way: idle_takers(way, takers=300, items=700),
        lambda way: drained(way, takers=300),
    ],
    ids=["at-once", "backlog", "one-taker", "many-takers", "drained"],
)
async def test_a_sample_is_a_figure_and_leaves_no_task_behind(way, sample):
    before = asyncio.all_tasks()
    assert await sample(way)() > 0
    assert asyncio.all_tasks() == before
