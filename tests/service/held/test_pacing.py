"""A pace completes a few operations in each pass of the loop: all, in order, and small batches beside large ones."""

import asyncio
import weakref

import pytest

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.durable.waiting.pacing import SLICE, Pace, in_turn

pytestmark = pytest.mark.asyncio


class Noted(DelayedOperation):
    def __init__(self, order):
        super().__init__(None)
        self._order = order

    def on_complete(self):
        self._order.append(self)


@pytest.fixture
def watched():
    """Make operations that are pending; their completions are noted in ``order``."""
    purgatory = Purgatory()

    def make(number, order):
        made = [Noted(order) for _ in range(number)]
        for each in made:
            purgatory.try_complete_else_watch(each, ["k"])
        return made

    yield make
    assert purgatory.pending == 0


async def test_what_had_its_turn_is_kept_no_longer():
    kept = weakref.WeakSet()
    snapshot = [Noted([]) for _ in range(5)]
    kept.update(snapshot)
    turns = in_turn(snapshot)
    del snapshot
    assert [len(kept) for _ in turns] == [5, 4, 3, 2, 1]


async def test_no_pass_completes_more_than_a_slice(watched):
    order, passes = [], []
    operations = watched(3 * SLICE + 1, order)
    Pace().complete(operations)
    while order != operations:
        passes.append(len(order))
        await asyncio.sleep(0)
    assert passes == [SLICE, 2 * SLICE, 3 * SLICE]


async def test_batches_of_one_pass_share_its_slice(watched):
    pace, order = Pace(), []
    for operation in watched(2 * SLICE, order):
        pace.complete([operation])
    assert len(order) == SLICE
    await asyncio.sleep(0)
    assert len(order) == 2 * SLICE


async def test_a_new_pass_has_a_whole_slice(watched):
    pace, order = Pace(), []
    pace.complete(watched(SLICE - 1, order))
    await asyncio.sleep(0)
    pace.complete(watched(SLICE, order))
    assert len(order) == 2 * SLICE - 1


async def test_a_small_batch_does_not_wait_for_a_large_one(watched):
    pace, large, small = Pace(), [], []
    pace.complete(watched(10 * SLICE, large))
    pace.complete(watched(3, small))
    await asyncio.sleep(0)
    assert (len(large), len(small)) == (2 * SLICE - 3, 3)
    pace.finish()


async def test_operations_that_ended_before_their_turn_take_none(watched):
    pace, order = Pace(), []
    operations = watched(3 * SLICE, order)
    pace.complete(operations)
    for gone in operations[SLICE : 2 * SLICE]:
        gone.cancel()
    await asyncio.sleep(0)
    assert order == operations[:SLICE] + operations[2 * SLICE :]


async def test_finishing_completes_all_that_is_left(watched):
    pace, order = Pace(), []
    operations = watched(5 * SLICE, order)
    pace.complete(operations[: 3 * SLICE])
    pace.complete(operations[3 * SLICE :])
    pace.finish()
    assert set(order) == set(operations)
