"""Queues that people have asked for in public: their own way, with its fault, and the same with `HandOff`."""

import asyncio

import pytest

from purgatory_async import PurgatoryFull
from purgatory_async.patterns import HandOff
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


class ClosableQueue(asyncio.Queue):
    """python/cpython#81515: a queue whose producers are finished should let its consumers end, too.

    The way proposed first: closing it cancels all that wait. A consumer at work then is not among them; when it comes
    back, it waits for ever, and a consumer that came before is cancelled with an item on its way.
    """

    def __init__(self):
        super().__init__()
        self.waiting = set()

    async def get(self):
        self.waiting.add(asyncio.current_task())
        try:
            return await super().get()
        finally:
            self.waiting.discard(asyncio.current_task())

    def close(self):
        for task in self.waiting:
            task.cancel()


async def consume(get, done):
    while True:
        done.append(await get())
        await asyncio.sleep(0)  # it works


async def test_cpython_81515_a_consumer_waits_for_ever():
    queue, done = ClosableQueue(), []
    consumers = [asyncio.create_task(consume(queue.get, done)) for _ in range(2)]
    await settle()
    for number in range(3):
        queue.put_nowait(number)
    queue.close()
    await settle()
    assert (done, queue.qsize()) == ([], 3)  # all were cancelled, with three items to do
    late = asyncio.create_task(consume(queue.get, done))
    await settle()
    assert (done, late.done()) == ([0, 1, 2], False)  # one that came later waits for ever
    late.cancel()
    await asyncio.gather(*consumers, late, return_exceptions=True)


async def test_cpython_81515_with_hand_off(purgatory):
    jobs, done = HandOff(purgatory), []

    async def consume():
        async for _, number in jobs.items("jobs"):
            done.append(number)
            await asyncio.sleep(0)

    consumers = [asyncio.create_task(consume()) for _ in range(2)]
    await settle()
    for number in range(3):
        jobs.put("jobs", number)
    jobs.shutdown()
    late = asyncio.create_task(consume())
    await asyncio.gather(*consumers, late)
    assert sorted(done) == [0, 1, 2]


async def test_cpython_83055_a_put_overtakes_those_that_wait():
    """python/cpython#83055: with a full `asyncio.Queue`, items come out in another order than they were put.

    A get makes room and wakes the oldest put, whose task has yet to run: `put_nowait` takes its place.
    """
    queue = asyncio.Queue(1)
    await queue.put(1)
    second = asyncio.create_task(queue.put(2))
    await settle()
    assert queue.get_nowait() == 1
    queue.put_nowait(3)
    await settle()
    assert (queue.get_nowait(), second.done()) == (3, False)
    await second


async def test_cpython_83055_with_hand_off(purgatory):
    jobs = HandOff(purgatory, max_items=1)
    await jobs.put_wait("jobs", 1)
    second = asyncio.create_task(jobs.put_wait("jobs", 2))
    await settle()
    assert jobs.take_nowait("jobs") == ("jobs", 1)
    with pytest.raises(PurgatoryFull):
        jobs.put("jobs", 3)
    third = asyncio.create_task(jobs.put_wait("jobs", 3))
    assert [await jobs.take("jobs"), await jobs.take("jobs")] == [("jobs", 2), ("jobs", 3)]
    await asyncio.gather(second, third)
