"""What waits for nothing, and whose loop has closed, belongs to the next loop, as asyncio's own locks do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from purgatory_async import DelayedOperation, OperationExpired, Purgatory, PurgatoryError, Timer
from purgatory_async.clock import MonotonicClock
from purgatory_async.patterns import Barrier, Correlator, HandOff, Watermark
from tests.conftest import default_loops

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(new_loop: NewLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coroutine)


MAKE: dict[str, Callable[[], Purgatory]] = {
    "own timer": Purgatory,
    "shared timer": lambda: Purgatory(timer=Timer()),
    "clock": lambda: Purgatory(timer=Timer(clock=MonotonicClock())),
    "limits": lambda: Purgatory(timer=Timer(max_pending=3), max_pending=2),
}
made = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


async def leave_a_wakeup(purgatory: Purgatory) -> None:
    """Leave a wakeup armed, and a pass that the loop drops when it closes."""
    for timeout in (60, 0):
        operation: DelayedOperation[None] = DelayedOperation(timeout)
        purgatory.try_complete_else_watch(operation, ["key"])
        operation.cancel()
    purgatory.timer.call_later(0, int).cancel()


async def use(purgatory: Purgatory) -> None:
    """Signal, expire, complete, and call back."""
    assert purgatory.check_and_complete("key") == purgatory.complete_for_key("key") == 0
    with pytest.raises(OperationExpired):
        await purgatory.wait("key", timeout=0.001)
    with pytest.raises(OperationExpired):
        await purgatory.wait("key", timeout=0)
    asyncio.get_running_loop().call_soon(purgatory.complete_for_key, "key", "done")
    assert await purgatory.wait("key", timeout=5) == "done"
    assert purgatory.portal().complete_for_key("key")
    called = asyncio.Event()
    purgatory.timer.call_later(0.001, called.set)
    await called.wait()


@made
@pytest.mark.parametrize("leave", [use, leave_a_wakeup])
def test_a_purgatory_goes_from_loop_to_loop(make: Callable[[], Purgatory], leave: Any) -> None:
    purgatory = make()
    for new_loop in (*default_loops().values(), *default_loops().values()):
        run(new_loop, leave(purgatory))
        run(new_loop, use(purgatory))
    purgatory.close()


@made
def test_what_is_pending_keeps_its_loop(make: Callable[[], Purgatory]) -> None:
    purgatory = make()

    async def watch() -> None:
        purgatory.try_complete_else_watch(DelayedOperation(60), ["key"])

    run(asyncio.SelectorEventLoop, watch())
    for again in (watch(), use(purgatory)):
        with pytest.raises(PurgatoryError, match="belongs to"):
            run(asyncio.SelectorEventLoop, again)
    assert purgatory.pending == 1
    purgatory.timer.close()  # from any loop; its operations end


def test_an_open_loop_keeps_what_it_has() -> None:
    purgatory = Purgatory()
    home = asyncio.SelectorEventLoop()
    home.run_until_complete(use(purgatory))
    with pytest.raises(PurgatoryError, match="belongs to"):
        run(asyncio.SelectorEventLoop, use(purgatory))
    home.close()
    run(asyncio.SelectorEventLoop, use(purgatory))
    purgatory.close()


def test_patterns_go_from_loop_to_loop() -> None:
    purgatory = Purgatory()
    jobs: HandOff[str, int] = HandOff(purgatory)
    calls: Correlator[str] = Correlator(purgatory)
    group: Barrier[str] = Barrier(purgatory, "group", expect=2, timeout=5)
    mark = Watermark(timer=purgatory.timer)

    async def use_patterns() -> None:
        taken, one, other, reached = (
            asyncio.ensure_future(each)
            for each in (
                jobs.take("jobs", timeout=5),
                group.arrive("a"),
                group.arrive("b"),
                mark.reach(mark.value + 1, 5),
            )
        )
        reply = calls.expect(7, 5)
        await asyncio.sleep(0)
        jobs.put("jobs", 1)
        calls.resolve(7, "pong")
        mark.advance(mark.value + 1)
        assert (await taken, await reply) == (("jobs", 1), "pong")
        assert await one is await other
        await reached

    for new_loop in (*default_loops().values(), *default_loops().values()):
        run(new_loop, use_patterns())
    purgatory.close()
