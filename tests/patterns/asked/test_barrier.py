"""What people asked for who meet at a barrier: the fault of their way, and `Barrier.abort` without it."""

import asyncio

import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import Barrier
from purgatory_async.testing import VirtualTimeLoop, settle
from tests.patterns.waiters import Waiter, ends, waiting


class DeviceError(Exception):
    """What a member fails with."""


@pytest.mark.asyncio
async def test_auto_mobile_6465_a_clean_up_forgets_those_that_wait(world):
    """kaeawc/auto-mobile#6465: a failed device empties the table of a barrier, so that the others fail fast.

    What it drops is not rejected: the others wait for all of their timeout, and then report that.
    """
    timer = world.timer()

    async def arrive(table):
        table.append(asyncio.get_running_loop().create_future())
        expired = timer.call_later(30, table[-1].set_exception, TimeoutError("no device came"))
        try:
            await table[-1]
        finally:
            expired.cancel()

    table = []
    waiters = await waiting(arrive(table), arrive(table))
    table.clear()  # the third has failed
    await world.run(29)
    assert [waiter.got for waiter in waiters] == [None, None]
    await world.run(1)
    assert [str(end) for end in await ends(waiters)] == ["no device came"] * 2

    async with Purgatory(timer=timer) as purgatory:
        devices = Barrier[str](purgatory, "start", expect=3, timeout=30)
        waiters = await waiting(devices.arrive("a"), devices.arrive("b"))
        devices.abort(error := DeviceError("c is locked"))
        assert await ends(waiters) == [error, error]
        assert timer.pending == 0
        devices.reset()  # and the next run meets at the same one


def test_compute_horde_298_a_step_that_fails_before_its_barrier():
    """backend-developers-ltd/ComputeHorde#298: jobs meet at a barrier after each step, and one of them fails before.

    The others wait for ever, so a reviewer asks for a hard timeout around each barrier, with `abort` behind it. Who is
    told of a broken barrier is not told why.
    """

    async def job(barrier, fails):
        if fails:
            raise DeviceError("no image")
        async with asyncio.timeout(60):
            await barrier.wait()

    async def by_hand():
        barrier, loop = asyncio.Barrier(3), asyncio.get_running_loop()
        started = loop.time()
        found = await asyncio.gather(*[job(barrier, n == 1) for n in range(3)], return_exceptions=True)
        return [type(each) for each in found], loop.time() - started

    loop = VirtualTimeLoop()
    try:
        assert loop.run_until_complete(by_hand()) == ([TimeoutError, DeviceError, TimeoutError], 60)
    finally:
        loop.close()


@pytest.mark.asyncio
async def test_compute_horde_298_with_abort(purgatory):
    """As above: the one that fails aborts, and all learn why, at once."""
    start = Barrier[int](purgatory, "start", expect=3, timeout=60)

    async def prepare(number):
        if number == 1:
            raise DeviceError("no image")

    async def job(number):
        try:
            await prepare(number)
            await start.arrive(number)
        except DeviceError as error:
            start.abort(error)
            raise

    several = [Waiter(job(number)) for number in range(3)]
    await settle()
    assert [str(end) for end in await ends(several)] == ["no image"] * 3
