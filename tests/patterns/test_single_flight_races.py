"""Callers cancelled at every point where they wait: the others lose nothing, no calls overlap, and nothing is left."""

import asyncio

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.core.recording import errors_of_loop
from tests.patterns.waiters import Waiter, let_pass

pytestmark = pytest.mark.asyncio


class Run:
    """A pattern, and calls that end by themselves after some passes; cancelled, they clean up as long."""

    def __init__(self, when_left: str, passes: int) -> None:
        self.purgatory = Purgatory(timer=Timer(clock=ManualClock()))
        self.flight = SingleFlight(self.purgatory, when_left=when_left)
        self.passes = passes
        self.begun = self.ended = self.running = 0

    async def fetch(self) -> int:
        self.begun += 1
        self.running += 1
        assert self.running == 1, "two calls overlap"
        number = self.begun
        try:
            await let_pass(self.passes)
        except asyncio.CancelledError:
            await let_pass(self.passes)
            raise
        finally:
            self.running -= 1
            self.ended += 1
        return number

    async def fetch_through_another(self) -> int:
        return await self.flight.run("inner", self.fetch, timeout=5)

    def caller(self) -> Waiter:
        return Waiter(self.flight.run("k", self.fetch, timeout=5))

    async def check(self) -> None:
        """See that nothing is left."""
        await settle()
        assert (len(self.flight), self.running, "k" in self.flight) == (0, 0, False)
        assert self.begun == self.ended
        assert_clean(self.purgatory)


async def alone(run):
    await run.flight.run("k", run.fetch, timeout=5)


async def through_another(run):
    await run.flight.run("k", run.fetch_through_another, timeout=5)


async def beside_others(run):
    run.others = [run.caller()]
    await asyncio.sleep(0)
    try:
        await run.flight.run("k", run.fetch, timeout=5)
    finally:
        run.others.append(run.caller())


async def first_of_several(run):
    run.others = []
    asyncio.get_running_loop().call_soon(lambda: run.others.append(run.caller()))
    await run.flight.run("k", run.fetch, timeout=5)


async def behind_a_clean_up(run):
    gone = run.caller()
    await let_pass(2)
    gone.cancel()
    run.others = [run.caller()]
    await let_pass(2)
    await run.flight.run("k", run.fetch, timeout=5)


async def forgotten(run):
    run.passes = 0  # else those two overlap, as they may
    task = asyncio.create_task(run.flight.run("k", run.fetch, timeout=5))
    try:
        await asyncio.sleep(0)
        run.flight.forget("k")
        run.others = [run.caller()]
        await task
    finally:
        task.cancel()


SCENARIOS = (alone, through_another, beside_others, first_of_several, behind_a_clean_up, forgotten)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("when_left", ["cancel", "finish"])
@pytest.mark.parametrize("passes", [0, 1, 4])
async def test_cancelled_anywhere_a_caller_only_leaves(scenario, when_left, passes):
    runs = []

    async def cancelled():
        run = Run(when_left, passes)
        run.others = []
        runs.append(run)
        await scenario(run)

    reports = errors_of_loop()
    points = await cancel_sweep(cancelled)
    assert points >= 1
    for run in runs:
        for other in run.others:
            assert type(await other.end()) is int
        await run.check()
    assert reports == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
