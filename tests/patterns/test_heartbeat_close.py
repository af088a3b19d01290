"""How `Heartbeat` ends, wherever it is closed from; and what it sees, keeps and shows."""

import asyncio
import contextvars
import weakref

import pytest

from purgatory_async.patterns import Heartbeat
from purgatory_async.testing import settle
from tests.patterns.diary import WORLD_NAMES, WORLDS, by_reference_counts_alone
from tests.patterns.links import Link, manual_link
from tests.timer.worlds import SteppedWorld, World, reports

each_world = pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)

who = contextvars.ContextVar("who", default="unset")


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
async def test_closed_while_a_ping_is_being_sent_it_lets_that_end() -> None:
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def send() -> None:
        await timer.sleep(5)
        ended.append(timer.time())

    link = Link(timer, send=send)
    await world.run(61)
    link.heart.close()
    await world.run(1000)
    assert (ended, link.deaths, timer.pending) == ([65], [], 0)


@pytest.mark.parametrize("how", ["aclose", "async with"])
@pytest.mark.asyncio
async def test_aclose_cancels_the_current_ping_and_waits_for_its_end(how: str) -> None:
    world, ended = SteppedWorld(), []
    timer = world.timer()

    async def send() -> None:
        try:
            await timer.sleep(500)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append(timer.time())

    link = Link(timer, send=send)
    if how == "aclose":
        await world.run(61)
        await link.heart.aclose()
    else:
        async with link.heart as heart:
            assert heart is link.heart
            await world.run(61)
    assert (ended, timer.pending) == ([61], 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("closing", ["close", "aclose"])
@pytest.mark.asyncio
async def test_closed_from_inside_send_it_lets_that_end(closing: str) -> None:
    world, ended = SteppedWorld(), []

    async def send() -> None:
        if closing == "close":
            link.heart.close()
        else:
            await link.heart.aclose()
        await asyncio.sleep(0)
        ended.append(link.timer.time())

    link = Link(world.timer(), send=send)
    await world.run(1000)
    assert (ended, link.deaths, link.timer.pending) == ([60], [], 0)


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


@each_world
@pytest.mark.asyncio
async def test_with_its_timer_it_ends_without_a_word(world_class: type[World]) -> None:
    world, reported = world_class(), reports()
    link = Link(world.timer())
    await world.run(65)
    link.timer.close()
    await world.run(1000)
    assert (link.pings, link.deaths, link.heart.alive, reported) == ([60], [], True, [])
    assert "closed" in repr(link.heart)
    await link.heart.aclose()


# What it sees, keeps and shows.


@pytest.mark.asyncio
async def test_ping_and_death_run_in_the_context_it_was_made_in() -> None:
    world, seen = SteppedWorld(), []

    def note() -> None:
        seen.append(who.get())
        who.set("the ping before")

    async def note_later() -> None:
        note()

    who.set("its maker")
    Link(world.timer(), send=note, on_dead=note_later)
    who.set("another caller")
    await world.run(1000)
    assert seen == ["its maker"] * 3


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
