"""`Retrier.run` cancelled at every point where it is suspended: its result is taken or left, its key is free again."""

import asyncio

import pytest

from purgatory_async import OperationCancelled, Purgatory, PurgatoryClosed
from purgatory_async.patterns import HandOff, Retrier
from purgatory_async.testing import assert_clean, cancel_sweep, settle
from tests.loop.worlds import ManualWorld, SteppedWorld, reports
from tests.patterns.waiters import Waiter, after, let_pass

pytestmark = pytest.mark.asyncio


class Jobs:
    """Takes jobs from a hand-off in attempts, the first of which fail."""

    def __init__(self, world, failures, **settings):
        self.world = world
        self.purgatory = Purgatory(timer=world.timer())
        self.jobs = HandOff(self.purgatory)
        self.retrier = Retrier(self.purgatory.timer, attempts=None, **settings)
        self.failures = failures
        self.busy = 0
        self.taken = []

    async def attempt(self):
        assert self.busy == 0, "attempts for one key overlap"
        self.busy += 1
        try:
            await asyncio.sleep(0)
            if self.failures:
                self.failures -= 1
                raise OSError("try again")
            return await self.jobs.take("job")
        finally:
            self.busy -= 1

    async def run(self):
        _, job = await self.retrier.run("key", self.attempt)
        self.taken.append(job)

    def pass_time(self, seconds):
        if isinstance(self.world, ManualWorld):
            self.world.clock.advance(seconds)
        else:
            self.world.clock.move(seconds)
            self.world.clock.ring()

    async def check_end(self):
        await settle()
        assert (self.busy, self.retrier.pending, self.purgatory.timer.pending) == (0, 0, 0)
        assert sorted(self.taken + [job for _, job in self.jobs.clear()]) == [1], (
            "a job is lost, or there twice"
        )
        self.purgatory.close()
        assert_clean(self.purgatory)
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("world_class", [ManualWorld, SteppedWorld])
@pytest.mark.parametrize("tell", [False, True], ids=["alone", "with on_failure"])
async def test_a_run_cancelled_anywhere_loses_no_result(world_class, tell):
    reported, all_of_them = reports(), []

    async def on_failure(*_):
        await asyncio.sleep(0)

    async def scenario():
        jobs = Jobs(world_class(), 2, on_failure=on_failure if tell else None)
        all_of_them.append(jobs)
        for passes in (4, 8):
            after(passes, jobs.pass_time, 5)
        after(14, jobs.jobs.put, "job", 1)
        await jobs.run()

    points = await cancel_sweep(scenario)
    assert points >= 6
    for jobs in all_of_them:
        await let_pass(20)  # what was to come
        if not jobs.taken and not len(jobs.jobs):
            jobs.jobs.put("job", 1)
        await jobs.check_end()
    assert reported == []


@pytest.mark.parametrize("passes", range(9))
@pytest.mark.parametrize("end", ["run", "submit", "cancel", "aclose"])
async def test_a_run_ended_in_any_pass_leaves_its_key_free(passes, end):
    world, line, begun = ManualWorld(), [], []
    retrier = Retrier(world.timer())

    async def attempt():
        assert not line, "attempts for one key overlap"
        line.append("busy")
        begun.append("")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        line.pop()
        if len(begun) == 1:
            raise OSError("try again")
        return "result"

    first = Waiter(retrier.run("key", attempt))
    after(5, world.clock.advance, 5)
    await let_pass(passes)
    second = Waiter(retrier.run("key", attempt)) if end == "run" else None
    if end == "submit":
        retrier.submit("key", attempt)
    elif end == "cancel":
        retrier.cancel("key")
    elif end == "aclose":
        await retrier.aclose()
    await let_pass(9)
    for _ in range(2):
        await world.run(5)
    kind = PurgatoryClosed if end == "aclose" else OperationCancelled
    assert first.got == "result" or type(first.got) is kind
    assert second is None or second.got == "result"
    assert (retrier.pending, retrier._timer.pending, retrier._waits.pending) == (0, 0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
