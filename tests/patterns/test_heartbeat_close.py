"""How `Heartbeat` ends, wherever it is closed from; and what it sees, keeps and shows."""

import asyncio
import weakref

import pytest

from purgatory_async.patterns import Heartbeat
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, World
from tests.patterns.diary import WORLD_NAMES, WORLDS, by_reference_counts_alone
from tests.patterns.links import Link, manual_link

each_world = pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)

# Closing.


@each_world
@pytest.mark.asyncio
async def test_closed_it_neither_pings_nor_dies(world_class: type[World]) -> None:
    world = world_class()
    link = Link(world.timer())
    await world.run(65)
    link.heart.close()
    link.heart.close()
    assert (link.timer.pending, link.timer.next_deadline) == (0, None)
    link.heart.saw_read()
    await world.run(1000)
    assert (link.pings, link.deaths, link.heart.alive) == ([60], [], True)
    await link.heart.aclose()


def test_closed_before_the_final_check_it_does_not_die() -> None:
    clock, link = manual_link(idle_timeout=130)
    clock.advance(125)
    link.heart.close()
    assert (link.timer.pending, link.timer.next_deadline) == (0, None)
    clock.advance(1000)
    assert link.deaths == []


def test_a_read_before_the_final_check_saves_it() -> None:
    clock, link = manual_link(idle_timeout=130)
    clock.advance(125)
    link.heart.saw_read()
    clock.advance(1000)
    assert link.deaths == [270]  # the check at 140 s saw it


@pytest.mark.asyncio
async def test_aclose_in_on_dead_cancels_a_hanging_ping_but_not_itself() -> None:
    world, events = SteppedWorld(), []

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            events.append("the ping was cancelled")

    async def on_dead() -> None:
        await link.heart.aclose()
        await asyncio.sleep(0)
        events.append("the link was closed")

    link = Link(world.timer(), send=hang, on_dead=on_dead)
    await world.run(1000)
    assert events == ["the ping was cancelled", "the link was closed"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


# What it sees, keeps and shows.


class Watched(Heartbeat):
    """One whose end can be seen."""


@pytest.mark.parametrize("end", ["close", "aclose", "death", "timer", "death after a last look"])
@pytest.mark.asyncio
async def test_an_ended_heartbeat_is_freed_at_once_with_its_callbacks(end: str) -> None:
    world = SteppedWorld()
    timer = world.timer()

    class Connection:
        def __init__(self) -> None:
            idle_timeout = 130 if end == "death after a last look" else 180
            self.heart = Watched(
                timer, interval=60, idle_timeout=idle_timeout, send=self.ping, on_dead=self.ping
            )

        async def ping(self) -> None:
            await asyncio.sleep(0)

    async def live() -> tuple["weakref.ref[object]", "weakref.ref[object]"]:
        connection = Connection()
        await world.run(125)
        if end == "aclose":
            await connection.heart.aclose()
        elif end in ("close", "timer"):
            (timer if end == "timer" else connection.heart).close()
        else:
            await world.run(60)
            assert not connection.heart.alive
        return weakref.ref(connection), weakref.ref(connection.heart)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(live())
        await settle()
        assert [reference() for reference in freed] == [None, None]


def test_its_repr_shows_its_state_and_its_silence() -> None:
    clock, link = manual_link(idle_timeout=130)
    clock.advance(30)
    link.heart.saw_write()
    clock.advance(10)
    assert repr(link.heart) == "<Heartbeat alive unread=2 unwritten=0 of 6.5 checks>"
    link.heart.close()
    assert repr(link.heart) == "<Heartbeat closed unread=2 unwritten=0 of 6.5 checks>"
    clock, link = manual_link()
    clock.advance(1000)
    assert repr(link.heart) == "<Heartbeat dead unread=9 unwritten=3 of 9 checks>"
