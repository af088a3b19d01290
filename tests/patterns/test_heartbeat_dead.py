"""`Heartbeat.dead`: it returns when the link is found dead, before ``on_dead``, and raises when that cannot come."""

import asyncio
import contextvars
import weakref

import pytest

from purgatory_async import OperationExpired, PurgatoryClosed
from purgatory_async.patterns import Heartbeat
from purgatory_async.testing import cancel_sweep, settle
from tests.loop.worlds import ManualWorld, SteppedWorld, World, by_reference_counts_alone, reports
from tests.patterns.waiters import Waiter, each_way, let_pass, waiting
from tests.patterns.work import Link, each_kind, each_world

pytestmark = pytest.mark.asyncio

who = contextvars.ContextVar("who", default="unset")


class Said(Link):
    """A link, and in which order its end was noticed."""

    def __init__(self, timer, **settings):
        super().__init__(timer, **settings)
        self.order = []

    def die(self):
        super().die()
        self.order.append("on_dead")

    async def watch(self, name="dead", **settings):
        await self.heart.dead(**settings)
        self.order.append(name)


@each_world
async def test_it_returns_at_the_death_before_on_dead(world_class: type[World]) -> None:
    world = world_class()
    link = Said(world.timer())
    await waiting(link.watch("first"), link.watch("second"))
    await world.run(179.999)
    assert link.order == []
    await world.run(0.001)
    assert link.order == ["first", "second", "on_dead"]
    assert (link.deaths, link.heart.alive, link.timer.pending) == ([180], False, 0)


async def test_a_thousand_tasks_go_on_before_on_dead(world: SteppedWorld) -> None:
    link = Said(world.timer())
    await waiting(*[link.watch() for _ in range(1000)])
    await world.run(180)
    assert (len(link.order), link.order[-1]) == (1001, "on_dead")


async def test_it_waits_on_while_the_link_is_read(world: SteppedWorld) -> None:
    link = Said(world.timer())
    [waiter] = await waiting(link.watch())
    for _ in range(10):
        await world.run(100)
        link.heart.saw_read()
    assert (waiter.done, link.order) == (False, [])
    await world.run(200)
    assert link.order == ["dead", "on_dead"]


async def test_after_the_death_it_returns_at_once(world: SteppedWorld) -> None:
    link = Said(world.timer())
    await world.run(180)
    assert link.order == ["on_dead"]
    for _ in range(2):
        with pytest.raises(StopIteration):
            link.heart.dead(timeout=0).send(None)
        await link.heart.aclose()


async def test_it_expires(world: SteppedWorld) -> None:
    link = Said(world.timer())
    [waiter] = await waiting(link.watch(timeout=100))
    await world.run(100)
    assert (type(waiter.got), waiter.got.timeout) == (OperationExpired, 100)
    assert isinstance(waiter.got, TimeoutError)
    await world.run(80)
    assert link.order == ["on_dead"]


@pytest.mark.parametrize("wrong", ["5", float("nan"), -float("inf"), True])
async def test_a_wrong_timeout_is_refused(wrong, world: SteppedWorld) -> None:
    link = Said(world.timer())
    with pytest.raises((TypeError, ValueError), match="timeout must"):
        await link.heart.dead(timeout=wrong)
    link.heart.close()


@pytest.mark.parametrize("end", ["close", "aclose", "timer"])
async def test_closed_it_raises_now_and_later(end, world: SteppedWorld) -> None:
    link = Said(world.timer())
    [waiter] = await waiting(link.watch())
    if end == "timer":
        link.timer.close()
    elif end == "close":
        link.heart.close()
    else:
        await link.heart.aclose()
    assert type(await waiter.end()) is PurgatoryClosed
    with pytest.raises(PurgatoryClosed):
        await link.heart.dead()
    assert (link.order, link.timer.pending) == ([], 0)


@each_way
async def test_a_cancelled_wait_leaves_nothing(way, world: SteppedWorld) -> None:
    link = Said(world.timer())
    [waiter] = await waiting(link.watch(), way=way)
    before = link.timer.pending
    waiter.cancel()
    await settle()
    assert (waiter.got, link.timer.pending) == ("cancelled", before - 1)
    await world.run(180)
    assert link.order == ["on_dead"]


async def test_cancelled_in_the_pass_of_the_death_on_dead_still_comes() -> None:
    world = ManualWorld()
    link = Said(world.timer())
    [waiter] = await waiting(link.watch())
    world.clock.advance(180)
    waiter.cancel()
    await settle()
    assert (waiter.got, link.order) == ("cancelled", ["on_dead"])


@each_kind
async def test_an_exception_of_a_late_on_dead_is_reported(kind, world: SteppedWorld) -> None:
    reported = reports()
    link = Said(world.timer(), on_dead=kind(LookupError("no link")))
    await waiting(link.watch())
    await world.run(180)
    assert link.order == ["dead"]
    assert [type(context["exception"]) for context in reported] == [LookupError]


async def test_on_dead_keeps_the_context_of_the_heartbeat(world: SteppedWorld) -> None:
    seen = []
    who.set("the link")
    link = Said(world.timer(), on_dead=lambda: seen.append(who.get()))
    who.set("who waits")
    await waiting(link.watch())
    await world.run(180)
    assert seen == ["the link"]


async def test_leaving_the_block_after_the_death_calls_on_dead_first(world: SteppedWorld) -> None:
    order = []
    timer = world.timer()

    async def serve():
        async with Heartbeat(timer, interval=1, send=int, on_dead=lambda: order.append("on_dead")) as heart:
            await heart.dead()
            order.append("dead")
        order.append("left")

    [waiter] = await waiting(serve())
    await world.run(10)
    await waiter.end()
    assert order == ["dead", "on_dead", "left"]


async def test_cancelled_anywhere_it_leaves_nothing() -> None:
    links = []

    async def scenario():
        world = ManualWorld()
        link = Said(world.timer())
        links.append(link)
        other = Waiter(link.watch("other"))
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, world.clock.advance, 200)
        try:
            await link.watch()
        finally:
            await let_pass(6)
            assert other.done

    assert await cancel_sweep(scenario, may_swallow=False) >= 1
    await settle()
    for link in links:
        assert link.order[-1] == "on_dead"
        assert link.order.count("on_dead") == 1
        assert (link.timer.pending, link.heart._waiting, link.heart._waits.pending) == (0, 0, 0)


@pytest.mark.parametrize("end", ["death", "close", "cancelled"])
async def test_what_has_ended_is_freed_at_once(end, world: SteppedWorld) -> None:
    async def live():
        link = Said(world.timer())
        [waiter] = await waiting(link.watch())
        if end == "death":
            await world.run(180)
        elif end == "close":
            link.heart.close()
        else:
            waiter.cancel()
        await settle()
        waiter.got = None
        link.heart.close()
        return weakref.ref(link)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(live())
        await settle()
        assert freed() is None
