"""`aclose` of what runs on a timer, cancelled everywhere it can be: closed it stays, and nothing is left or lost."""

import asyncio

import pytest

from purgatory_async.patterns import Retrier
from purgatory_async.testing import cancel_sweep, settle
from tests.loop.worlds import ManualWorld, SteppedWorld, reports
from tests.patterns.table import RUNS, Retrying


class Work:
    """Never ends by itself, and not at once when it is cancelled."""

    def __init__(self, passes):
        self.begun = self.ended = 0
        self._passes = passes

    async def __call__(self):
        self.begun += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                for _ in range(self._passes):
                    await asyncio.sleep(0)
            finally:
                self.ended += 1  # also when closing it again cancels it again


class RetryingOthers(Retrying):
    """A `Retrier` that has a replaced attempt going on, and one to come, beside the one that fails."""

    @staticmethod
    def make(timer, work):
        retrier = Retrier[str](timer, delay=1, attempts=1)
        retrier.submit("going on", work)
        retrier.submit("replaced", work)
        timer.call_later(1, retrier.submit, "replaced", print)
        return retrier


async def plainly(close):
    await close()


async def twice(close):
    await close()
    await close()


async def both_at_once(close):
    await asyncio.gather(close(), close())


@pytest.mark.parametrize("row", [*RUNS, RetryingOthers], ids=lambda row: row.__name__)
@pytest.mark.parametrize("world_class", [ManualWorld, SteppedWorld])
@pytest.mark.parametrize("close", [plainly, twice, both_at_once])
@pytest.mark.parametrize("passes", [0, 3], ids=["quick to end", "slow to end"])
@pytest.mark.asyncio
async def test_aclose_cancelled_anywhere_can_be_finished_by_another(row, world_class, close, passes):
    reported, closed = reports(), []

    async def scenario():
        world, work, answers = world_class(), Work(passes), []
        timer = world.timer()
        pattern = row.make(timer, work)
        closed.append((pattern, timer, work, answers))
        for _ in range(10):  # each check of a heartbeat at its time
            world.clock.advance(0.1) if world_class is ManualWorld else world.clock.move(0.1)
            if world_class is SteppedWorld:
                world.clock.ring()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert work.begun >= 1

        async def aclose():
            answers.append(await pattern.aclose())

        await close(aclose)
        assert work.begun == work.ended, "it has not waited"

    points = await cancel_sweep(scenario)
    assert points >= 3, "aclose never waited"
    assert len(closed) == 1 + 2 * points
    for pattern, timer, work, answers in closed:
        answers.append(await pattern.aclose())
        assert (timer.pending, timer.next_deadline, work.begun) == (0, None, work.ended)
        undone = sorted(key for answer in answers for key in answer or ())
        if row is RetryingOthers:
            assert undone == ["going on", "replaced"]
            assert pattern.pending == 0
    await settle()
    assert (reported, asyncio.all_tasks()) == ([], {asyncio.current_task()})
