"""What people asked for who repeat calls: the fault of their way, and `Retrier.run` without it."""

import asyncio
from itertools import repeat

import pytest

from purgatory_async.patterns import Retrier
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld
from tests.patterns.waiters import Waiter

pytestmark = pytest.mark.asyncio


class Service:
    """Refuses calls until a time, and takes some itself."""

    def __init__(self, timer, ready=float("inf"), takes=0.0):
        self.timer, self.ready, self.takes = timer, ready, takes
        self.called = []

    async def call(self):
        self.called.append(self.timer.time())
        if self.takes:
            await self.timer.sleep(self.takes)
        if self.timer.time() < self.ready:
            raise ConnectionError("not ready")
        return "ready"


async def test_backoff_43_for_five_minutes(world: SteppedWorld) -> None:
    """litl/backoff#43: a number of tries is no time to wait: full jitter may draw short delays each time.

    What is polled then has far less than the five minutes that it was meant to have.
    """
    timer, unlucky = world.timer(), repeat(0.01)

    async def tries(call, number):
        for each in range(number):
            try:
                return await call()
            except ConnectionError:
                if each + 1 == number:
                    raise
            await timer.sleep(next(unlucky) * 2**each)
        return None

    by_hand = Service(timer, ready=240)
    waiter = Waiter(tries(by_hand.call, 9))  # 1 + 2 + 4 + ... + 128 seconds, at most
    await world.run(300)
    assert isinstance(waiter.got, ConnectionError)
    assert by_hand.called[-1] < 3

    service, started = Service(timer, ready=540), timer.time()
    polls = Retrier[str](timer, delay=1, backoff=2, max_delay=60, attempts=None, total=300)
    waiter = Waiter(polls.run("job", service.call))
    await world.run(300)
    assert waiter.got == "ready"
    assert service.called[-1] - started == 243  # 0, 1, 3, 7, ... 63, 123, 183, 243


async def test_backoff_186_the_first_try_counts(world: SteppedWorld) -> None:
    """litl/backoff#186: the time allowed is only looked at after the first repetition.

    A call that takes 5 seconds, with 2 allowed, was made again; #196 had to subtract the longest first call.
    """
    timer = world.timer()

    async def for_seconds(call, allowed):
        deadline = None
        while True:
            try:
                return await call()
            except ConnectionError:
                if deadline is None:
                    deadline = timer.time() + allowed
                elif timer.time() >= deadline:
                    raise
            await timer.sleep(1)

    by_hand, service = Service(timer, takes=5), Service(timer, takes=5)
    waiter = Waiter(for_seconds(by_hand.call, 2))
    await world.run(60)
    assert by_hand.called == [0, 6]
    assert isinstance(waiter.got, ConnectionError)

    waiter = Waiter(Retrier[str](timer, delay=1, attempts=None, total=2).run("job", service.call))
    await world.run(60)
    assert service.called == [60]
    assert isinstance(waiter.got, ConnectionError)


async def test_tenacity_437_async_hooks(world: SteppedWorld) -> None:
    """jd/tenacity#437: an async hook is called and never awaited; as a condition its coroutine counts as true.

    Users of #249 wanted to sign in again before the next try.
    """
    timer, signed_in = world.timer(), []

    async def sign_in(*_failure):
        await asyncio.sleep(0)
        signed_in.append(timer.time())

    async def is_ours(_failure):
        return False

    async def call():
        if not signed_in:
            raise PermissionError("not signed in")
        return "page"

    dropped = []  # coroutines that warn that they were never awaited

    async def tries(number):
        for _ in range(number):
            try:
                return await call()
            except PermissionError as failure:
                dropped.append(is_ours(failure))
                if not dropped[-1]:
                    raise
                dropped.append(sign_in(failure))
        return "gave up"

    assert await tries(3) == "gave up"  # it tried again, though this was not to be repeated
    assert (len(dropped), signed_in) == (6, [])
    for coroutine in dropped:
        coroutine.close()

    with pytest.raises(TypeError, match="retry_on must be a plain function, not async"):
        Retrier(timer, retry_on=is_ours)
    pages = Retrier[str](timer, retry_on=PermissionError, on_failure=sign_in)
    waiter = Waiter(pages.run("page", call))
    await world.run(5)
    await settle()
    assert (waiter.got, signed_in) == ("page", [0])
