"""Code inside a hook, a check or an observer that awaits: an eager task, or a nested run of the loop."""

import asyncio
import sys

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory
from purgatory_async.patterns import Barrier, Quorum
from purgatory_async.testing import settle

CHAIN = 2 * sys.getrecursionlimit()
eager = pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="eager tasks need CPython 3.12")


class Fetch(DelayedOperation[str]):
    """Completes at once, or at its deadline; its hooks set its result."""

    def __init__(self, timeout=None, *, at_once=True):
        super().__init__(timeout)
        self.at_once = at_once

    def try_complete(self) -> bool:
        return self.at_once and self.force_complete()

    def on_complete(self) -> None:
        self.result = "data"

    def on_expiration(self) -> None:
        self.result = "late"


class Trigger(DelayedOperation[object]):
    """Starts something in its hook, its check or both."""

    def __init__(self, hook=list, check=bool):
        super().__init__()
        self.hook, self.check = hook, check

    def try_complete(self) -> bool:
        return bool(self.check())

    def on_complete(self) -> None:
        self.result = self.hook()


class Observer:
    """Starts something when an operation has ended."""

    def __init__(self, act):
        self.act = act

    def notify(self, event) -> None:
        if isinstance(getattr(event, "operation", None), Trigger) and hasattr(event, "outcome"):
            self.act()


async def fetched(purgatory) -> object:
    fetch = Fetch()
    return await purgatory.run(fetch, ["log"]), fetch.result


async def quorum(purgatory) -> object:
    produce = Quorum(1)
    produce.vote("leader")
    return await purgatory.run(produce, ["log"]), list(produce.result or [])


async def shared(purgatory) -> object:
    fetch = Fetch()
    assert purgatory.try_complete_else_watch(fetch, ["log"])
    return await fetch, fetch.result


async def barrier(purgatory) -> object:
    released = []
    group = Barrier(purgatory, "group", expect=1, timeout=None, on_release=released.append)
    return [await group.arrive("a")] == released


CASES = [
    pytest.param(fetched, (Outcome.COMPLETED, "data"), id="run"),
    pytest.param(shared, (Outcome.COMPLETED, "data"), id="await"),
    pytest.param(quorum, (Outcome.COMPLETED, ["leader"]), id="quorum"),
    pytest.param(barrier, True, id="barrier"),
]


def nested(coroutine):
    """Run a coroutine to its end without returning: what a nested run of the loop does with one that is ready."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value


def eagerly(coroutine):
    return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)


WAYS = [pytest.param(nested, id="nested"), pytest.param(eagerly, id="eager", marks=eager)]


@pytest.mark.asyncio
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["hook", "check", "observer"])
@pytest.mark.parametrize(("case", "answer"), CASES)
async def test_an_await_returns_after_the_operations_own_hooks(case, answer, place, way):
    answers = []

    def act() -> None:
        answers.append(way(case(inner)))

    observer = Observer(act) if place == "observer" else None
    async with Purgatory() as inner, Purgatory(observer=observer) as outer:
        trigger = Trigger(**{place: act}) if place != "observer" else Trigger()
        outer.try_complete_else_watch(trigger, ["go"])
        if place != "check":
            outer.complete_for_key("go")
        await settle()
        assert [await each if isinstance(each, asyncio.Future) else each for each in answers] == [answer]
        assert inner._hooks.queue == outer._hooks.queue == type(inner._hooks.queue)()
        assert not inner._hooks.deferred


def test_hooks_queued_before_run_before(purgatory):
    log = []

    def note(name):
        return lambda: log.append(name)

    def trigger() -> None:
        Trigger(note("first")).force_complete()
        nested(fetched(purgatory))
        log.append("awaited")

    outer = Trigger(trigger)
    purgatory.try_complete_else_watch(outer, ["k"])
    purgatory.try_complete_else_watch(Trigger(note("second of the walk")), ["k"])
    purgatory.complete_for_key("k")
    assert log == ["second of the walk", "first", "awaited"]
    purgatory.check_invariants()


@pytest.mark.asyncio
async def test_an_operation_awaited_in_its_own_hook_does_not_hang(purgatory):
    async def own():
        return await trigger

    trigger = Trigger(lambda: nested(own()))
    trigger.force_complete()
    assert trigger.result is Outcome.COMPLETED


def test_both_hooks_of_an_expired_one_run_first(purgatory, manual_clock):
    async def expired():
        fetch = Fetch(1, at_once=False)
        purgatory.try_complete_else_watch(fetch, ["log"])
        manual_clock.advance(1)
        return await fetch, fetch.result

    trigger = Trigger(lambda: nested(expired()))
    trigger.force_complete()
    assert trigger.result == (Outcome.EXPIRED, "late")


@pytest.mark.asyncio
async def test_after_an_interrupt_too_the_hooks_come_first(purgatory):
    def interrupt() -> None:
        raise KeyboardInterrupt

    async def awaited():
        return await purgatory.run(fetch, ["log"]), fetch.result

    fetch, interrupted = Fetch(at_once=False), Trigger(interrupt)
    task = asyncio.create_task(awaited())
    await settle()
    with pytest.raises(KeyboardInterrupt):
        Trigger(lambda: (interrupted.force_complete(), fetch.force_complete())).force_complete()
    assert await task == (Outcome.COMPLETED, "data")


def run_loop(coroutine):
    """A nested run of the loop, from a callback, for at most ten seconds of its time."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(coroutine)
    for _ in range(100):
        if not task.done():
            loop.call_later(0.1, int)  # otherwise a turn would wait for ever
            loop._run_once()
    return task.result() if task.done() else "it hangs"


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_a_nested_run_of_the_loop_in_a_hook_goes_on():
    async def inside():
        await purgatory.timer.sleep(1)
        signalled, expired = Fetch(at_once=False), Fetch(1, at_once=False)
        asyncio.get_running_loop().call_soon(purgatory.complete_for_key, "log")
        await purgatory.run(signalled, ["log"])
        return signalled.result, await purgatory.run(expired, ["log"]), expired.result

    done = asyncio.get_running_loop().create_future()
    async with Purgatory() as purgatory:
        trigger = Trigger(lambda: done.set_result(run_loop(inside())))
        purgatory.try_complete_else_watch(trigger, ["go"])
        asyncio.get_running_loop().call_soon(purgatory.complete_for_key, "go")
        assert await done == ("data", Outcome.EXPIRED, "late")


@eager
@pytest.mark.asyncio
async def test_a_chain_of_eager_tasks_does_not_recurse(purgatory):
    class Link(Fetch):
        def on_complete(self) -> None:
            super().on_complete()
            if len(ended) + len(tasks) < CHAIN:
                tasks.append(eagerly(go()))

    async def go() -> None:
        link = Link()
        await purgatory.run(link, ["k"])
        ended.append(link.result)

    tasks: list[asyncio.Task[None]] = []
    ended: list[object] = []
    await go()
    while any(not task.done() for task in tasks):
        await settle()
    assert ended == ["data"] * (len(tasks) + 1)
    assert len(tasks) >= CHAIN - 2
