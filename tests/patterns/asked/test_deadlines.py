"""What people asked for whose deadlines move or cover several steps: the fault of their way, and one without it."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, OperationExpired, Purgatory
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld
from tests.patterns.waiters import Waiter

pytestmark = pytest.mark.asyncio


async def test_typescript_sdk_152_progress_extends(world: SteppedWorld) -> None:
    """modelcontextprotocol/typescript-sdk#152: a request expires at a fixed time, though it reports progress.

    Progress is to put the timeout off, within a maximum in total.
    """
    timer = world.timer()
    by_hand = asyncio.get_running_loop().create_future()
    timer.call_later(60, by_hand.set_exception, TimeoutError())
    for _ in range(3):
        await world.run(20)  # progress, which nothing hears
    assert isinstance(by_hand.exception(), TimeoutError)

    class Request(DelayedOperation[str]):
        def __init__(self, timeout: float, total: float) -> None:
            super().__init__(timeout)
            self.idle, self.last = timeout, timer.time() + total

        def progress(self) -> bool:
            return self.reschedule(min(self.idle, self.last - timer.time()))

    purgatory = Purgatory(timer=timer)
    request, endless = Request(60, 300), Request(60, 150)
    waiters = [Waiter(purgatory.run(each, [each])) for each in (request, endless)]
    await settle()
    told = []
    for _ in range(10):
        await world.run(20)
        told.append((request.progress(), endless.progress()))
    assert told == [(True, True)] * 7 + [(True, False)] * 3  # the second expired after 150 seconds
    request.force_complete("done")
    assert [str(await each.end()) for each in waiters] == ["completed", "expired"]
    assert timer.pending == 0


async def test_rust_sdk_834_silence_ends_a_request(world: SteppedWorld) -> None:
    """modelcontextprotocol/rust-sdk#834: whether progress refreshes a timeout, so that only silence ends a request.

    Who looks again after each timeout whether there was progress ends it late, up to twice the timeout.
    """
    timer = world.timer()
    heard = timer.time()

    async def watchdog() -> float:
        while True:
            await timer.sleep(60)
            if timer.time() - heard >= 60:
                return timer.time()

    purgatory = Purgatory(timer=timer)
    began = timer.time()
    by_hand, waiter = Waiter(watchdog()), Waiter(purgatory.wait("reply", timeout=60))
    await world.run(1)
    heard = timer.time()
    (request,) = purgatory.operations("reply")
    assert request.reschedule(60)
    await world.run(60)
    error = await waiter.end()
    assert isinstance(error, OperationExpired)
    assert (error.timeout, timer.time() - began, by_hand.done) == (60, 61, False)
    await world.run(59)
    assert by_hand.got - began == 120


async def test_grpclib_216_parked_before_it_is_sent(world: SteppedWorld) -> None:
    """vmagamedov/grpclib#216: a sender that waits for room has registered nothing yet, so nothing ends its wait.

    A limit on the reply alone does not help: it begins after the sending.
    """
    timer, room = world.timer(), asyncio.Event()
    purgatory = Purgatory(timer=timer)

    async def by_hand() -> object:
        await room.wait()
        return await purgatory.wait("reply", timeout=5)

    async def limited() -> object:
        async with timer.timeout(5):
            await room.wait()
            return await purgatory.wait("reply")

    parked, waiter = Waiter(by_hand()), Waiter(limited())
    await world.run(5)
    assert isinstance(await waiter.end(), TimeoutError)
    await world.run(1_000)
    assert not parked.done
    parked.cancel()
    lost = Waiter(limited())
    await settle()
    timer.close()  # with its connection
    assert "timer was closed" in str(await lost.end())


async def test_cpython_134471_a_cancellation_before(world: SteppedWorld) -> None:
    """python/cpython#134471: `asyncio.timeout` of no time takes a cancellation from just before for its own.

    The task goes on, as if it had not been cancelled.
    """
    timer, went_on = world.timer(), []

    async def cancelled_before(timeout) -> None:
        asyncio.current_task().cancel()
        try:
            async with timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            went_on.append(timeout)

    swallowed, kept = Waiter(cancelled_before(asyncio.timeout)), Waiter(cancelled_before(timer.timeout))
    await settle()
    assert (await kept.end(), timer.pending) == ("cancelled", 0)
    assert went_on in ([asyncio.timeout], [])  # a later CPython may have mended it
    await swallowed.end()
