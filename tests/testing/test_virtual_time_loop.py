"""An event loop whose time jumps to the next timer when it is idle; everything else is as on any loop."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

import pytest

from purgatory_async import OperationExpired, Purgatory, Timer
from purgatory_async.clock import Clock
from purgatory_async.testing import VirtualTimeLoop

DAY = 86_400
virtual = pytest.mark.asyncio(loop_factories=["virtual"])

# A day of real waiting cannot hide below this, and no machine is so slow.
MOMENT = 3_600.0


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual
async def test_time_begins_at_zero_and_a_day_takes_a_moment() -> None:
    begin = perf_counter()
    assert now() == 0.0
    await asyncio.sleep(DAY)
    assert now() == DAY
    assert perf_counter() - begin < MOMENT


@virtual
async def test_time_stands_still_while_something_is_ready() -> None:
    for _ in range(100):
        await asyncio.sleep(0)
    assert now() == 0.0


@virtual
async def test_timers_fire_in_order_each_at_its_own_time() -> None:
    fired: list[tuple[float, float]] = []
    loop = asyncio.get_running_loop()
    delays = [3600.5, 0.25, 1e-6, 0.1 + 0.2, 86_399.999]
    for delay in delays:
        loop.call_later(delay, lambda delay=delay: fired.append((delay, now())))
    await asyncio.sleep(DAY)
    assert [delay for delay, _ in fired] == sorted(delays)
    for delay, at in fired:
        assert delay <= at + 1e-9, "early"
        assert at <= delay + 2e-9, "late"


@virtual
async def test_a_timeout_expires_at_its_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert now() == 3600


@virtual
async def test_a_timer_without_a_clock_uses_its_time() -> None:
    timer = Timer()
    begin = perf_counter()
    await timer.sleep(DAY)
    assert timer.time() == now() == DAY
    assert perf_counter() - begin < MOMENT


@virtual
async def test_a_purgatory_without_a_timer_uses_its_time() -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(OperationExpired):
            await purgatory.wait("door", timeout=DAY)
    assert now() == DAY


@virtual
async def test_it_is_a_clock() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    assert loop.time_ns() == 0


@virtual
async def test_a_whole_year_of_a_ticking_timer_is_exact() -> None:
    timer = Timer(tick=3600)
    for _ in range(365 * 24):
        await timer.sleep(3600)
    assert now() == 365 * DAY


@virtual
async def test_real_sockets_still_work() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        assert await reader.readline() == b"HELLO\n"
        writer.close()
        await writer.wait_closed()


@virtual
async def test_what_is_readable_is_read_before_time_jumps() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        # Sent once the reader waits, so that the loop finds it where it looks for a time to jump to.
        loop.call_soon(theirs.send, b"here already")
        async with asyncio.timeout(3600):
            assert await loop.sock_recv(ours, 100) == b"here already"
    assert now() == 0.0


@virtual
async def test_a_thread_wakes_a_loop_that_has_nothing_else_to_do() -> None:
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(woken.set,))
    loop.call_soon(thread.start)
    await woken.wait()
    thread.join()
    assert now() == 0.0


@virtual
async def test_work_in_a_thread_can_be_awaited() -> None:
    assert await asyncio.to_thread(sum, range(10)) == 45


@virtual
async def test_a_signal_through_the_portal_wakes_an_idle_loop() -> None:
    async with Purgatory() as purgatory:
        portal = purgatory.portal()
        thread = threading.Thread(target=portal.complete_for_key, args=("door", "open"))
        asyncio.get_running_loop().call_soon(thread.start)
        assert await purgatory.wait("door") == "open"
        thread.join()


def with_runner(main: Callable[[], Coroutine[Any, Any, float]]) -> float:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


def with_policy(main: Callable[[], Coroutine[Any, Any, float]]) -> float:
    class Policy(asyncio.DefaultEventLoopPolicy):
        _loop_factory = VirtualTimeLoop

    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(Policy())
    try:
        return asyncio.run(main())
    finally:
        asyncio.set_event_loop_policy(before)


def by_hand(main: Callable[[], Coroutine[Any, Any, float]]) -> float:
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("run", [with_runner, with_policy, by_hand], ids=["Runner", "asyncio.run", "by hand"])
def test_it_runs_a_whole_application_and_closes_cleanly(run) -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return now()

    assert run(main) == 3600.0


def test_it_goes_on_where_it_was_on_the_second_run() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(asyncio.sleep(5))
        runner.run(asyncio.sleep(5))
        assert runner.get_loop().time() == 10.0


def test_tasks_that_are_left_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def sleep_long() -> None:
        try:
            await asyncio.sleep(DAY)
        finally:
            ended.append("cancelled")

    async def main() -> None:
        tasks.append(asyncio.create_task(sleep_long()))
        await asyncio.sleep(1)

    tasks: list[asyncio.Task[None]] = []
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
    assert ended == ["cancelled"]
