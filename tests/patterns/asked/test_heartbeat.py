"""What people asked for who watch a link: the fault of their way, and `Heartbeat.dead` without it."""

import asyncio

import pytest

from purgatory_async import OperationExpired
from purgatory_async.patterns import Heartbeat
from tests.loop.worlds import SteppedWorld
from tests.patterns.waiters import Waiter, waiting

pytestmark = pytest.mark.asyncio


class Socket:
    """A link that only receives, and whose peer is gone: it says nothing more."""

    def __init__(self):
        self.messages = asyncio.Queue()
        self.pings = 0
        self.closed = False

    def ping(self):
        self.pings += 1

    def close(self):
        self.closed = True


async def test_aiohttp_4153_who_only_receives_never_learns(world: SteppedWorld) -> None:
    """aio-libs/aiohttp#4153: the heartbeat finds no answer and closes the link, and the task that receives waits on.

    The only way was to send something, for which the heartbeat was there.
    """
    timer, lost = world.timer(), Socket()
    by_hand = Heartbeat(timer, interval=5, send=lost.ping, on_dead=lost.close)
    [reader] = await waiting(lost.messages.get())
    await world.run(3600)
    assert (lost.closed, lost.pings, reader.done) == (True, 2, False)
    reader.cancel()
    await by_hand.aclose()

    link = Socket()

    async def receive(heart):
        async with asyncio.TaskGroup() as group:
            group.create_task(link.messages.get())
            await heart.dead()
            raise ConnectionError("the peer is gone")

    heart = Heartbeat(timer, interval=5, send=link.ping, on_dead=link.close)
    [reader] = await waiting(receive(heart))
    await world.run(15)
    assert (reader.done, link.closed) == (True, True)
    assert reader.got.exceptions[0].args == ("the peer is gone",)


async def test_websockets_185_a_flag_for_missed_pongs(world: SteppedWorld) -> None:
    """python-websockets/websockets#185: to close after missed pongs takes a task, a timeout a ping, and a future.

    The future is the flag that the main task waits for beside its messages. The task that sets it is cancelled when the
    link is closed, so it is never set; who waits for it hangs.
    """
    timer = world.timer()

    async def keep_alive(pong, flag):
        while True:
            await timer.sleep(5)
            try:
                await asyncio.wait_for(pong.wait(), 0)
            except TimeoutError:
                flag.set_result("dead")
                return
            pong.clear()

    flag = asyncio.get_running_loop().create_future()
    pinging = asyncio.create_task(keep_alive(asyncio.Event(), flag))
    waiter = Waiter(asyncio.wait_for(asyncio.shield(flag), None))
    await world.run(1)
    pinging.cancel()  # with the link
    await world.run(3600)
    assert not waiter.done
    waiter.cancel()

    heart = Heartbeat(timer, interval=5, send=int, on_dead=int)
    first, second = await waiting(heart.dead(), heart.dead(timeout=2))
    await world.run(2)
    assert type(second.got) is OperationExpired
    await heart.aclose()
    assert "closed under the wait for its death" in str(await first.end())
