"""`Heartbeat`: a link that is idle is pinged, a busy one is left alone, and a dead one is found in time."""

import asyncio
import dis
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async import PurgatoryFull
from purgatory_async.patterns import Heartbeat
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, World, reports
from tests.patterns.work import Link, each_world, manual_link

TICK = 0.001


# Pings.


@each_world
@pytest.mark.asyncio
async def test_a_silent_link_is_pinged_every_interval_until_it_is_dead(world_class: type[World]) -> None:
    world = world_class()
    link = Link(world.timer())
    await world.run(1000)
    assert (link.pings, link.deaths) == ([60, 120], [180])
    assert (link.heart.alive, link.timer.pending, link.timer.next_deadline) == (False, 0, None)


LIVES = {
    "busy both ways": ({59}, {59}, [], []),
    "busy both ways all the time": ({1}, {1}, [], []),
    "only writes": (set(), {1}, [60, 120], [180]),
    "only reads": ({1}, set(), [60, 120, 180, 240, 300, 360, 420, 480, 540, 600], []),
    "silent": (set(), set(), [60, 120], [180]),
    "all in its seventh minute": ({400}, {400}, [60, 120], [180]),  # when it is dead for good
}


@pytest.mark.parametrize(("reads", "writes", "pings", "deaths"), LIVES.values(), ids=LIVES)
def test_a_link_is_pinged_in_silence_until_it_is_dead(
    reads: set[int], writes: set[int], pings: list[float], deaths: list[float]
) -> None:
    clock, link = manual_link()
    for second in range(1, 601):
        clock.advance(1)
        if any(second % each == 0 for each in reads):
            link.heart.saw_read()
        if any(second % each == 0 for each in writes):
            link.heart.saw_write()
    assert (link.pings, link.deaths, link.heart.alive) == (pings, deaths, deaths == [])
    link.heart.close()


def test_a_link_that_answers_every_ping_lives_on() -> None:
    clock, link = manual_link(send=lambda: (link.ping(), link.heart.saw_read()))
    clock.advance(60 * 1000)
    assert link.pings == [60 * number for number in range(1, 1001)]
    assert link.heart.alive


@pytest.mark.parametrize("last_seen", [1000, 1001, 1019, 1020, 1039.999])
def test_a_silent_link_is_pinged_within_four_thirds_of_interval(last_seen: float) -> None:
    clock, link = manual_link()
    while clock.time() < last_seen:
        clock.advance(min(7, last_seen - clock.time()))
        link.heart.saw_read()
        link.heart.saw_write()
    clock.advance(81)
    assert last_seen + 60 <= link.pings[0] <= last_seen + 80
    assert len(link.pings) == 1


@given(
    events=st.lists(st.tuples(st.integers(1, 130), st.sampled_from(["read", "write", "both"])), max_size=60)
)
def test_pings_come_only_for_silence_and_in_time(events: list[tuple[int, str]]) -> None:
    clock, link = manual_link(idle_timeout=1e6)
    reads, writes = [0.0], [0.0]
    for wait, kind in [*events, (300, "both")]:
        clock.advance(wait)
        if kind != "write":
            reads.append(clock.time())
            link.heart.saw_read()
        if kind != "read":
            writes.append(clock.time())
            link.heart.saw_write()
    link.heart.close()
    for ping in link.pings:
        # What is seen at the instant of a check may come after it.
        silent = ping - max(time for time in reads if time < ping)
        mute = ping - max(time for time in [*writes, *link.pings] if time < ping)
        assert max(silent, mute) >= 60
    assert all(later - earlier >= 60 for earlier, later in pairwise(link.pings))
    for earlier, later in pairwise([-60.0, *link.pings, clock.time()]):
        quiet_since = max(time for time in reads if time < later)
        assert later <= max(earlier + 60, quiet_since + 60) + 20


# Death.


def test_it_has_ended_when_on_dead_runs() -> None:
    deaths: list[tuple[bool, int]] = []
    clock, link = manual_link(on_dead=lambda: deaths.append((link.heart.alive, link.timer.pending)))
    assert link.heart.alive
    clock.advance(1000)
    assert deaths == [(False, 0)]


@pytest.mark.parametrize("idle_timeout", [20, 21, 23.3, 25, 26, 30, 100 / 3, 47])
@pytest.mark.parametrize("last_read", [0, 3, 10 / 3, 3.334, 5, 6.66, 6.67, 9.999, 10, 100.001])
def test_death_is_never_early_and_at_most_a_third_late(idle_timeout: float, last_read: float) -> None:
    clock, link = manual_link(interval=10, idle_timeout=idle_timeout)
    while last_read - clock.time() > 1e-9:  # the clock counts nanoseconds
        clock.advance(min(1.25, last_read - clock.time()))
        link.heart.saw_read()
    clock.advance(200)
    assert len(link.deaths) == 1
    assert last_read + idle_timeout - 2e-9 <= link.deaths[0] <= last_read + idle_timeout + 10 / 3 + 2 * TICK


@example(interval=0.125, times=2.5, reads=[1.375, 1.0625, 1.453125, 0.65625, 0.125])
@given(
    interval=st.floats(0.05, 1000),
    times=st.floats(2, 20),
    reads=st.lists(st.floats(0, 1.5), max_size=30),
)
def test_whatever_was_read_death_comes_in_time(interval: float, times: float, reads: list[float]) -> None:
    idle_timeout = times * interval
    clock, link = manual_link(interval=interval, idle_timeout=idle_timeout)
    for wait in reads:
        clock.advance(wait * interval)
        link.heart.saw_read()
    last_read = clock.time()
    clock.advance(idle_timeout + interval + TICK)
    assert len(link.deaths) == 1
    late = link.deaths[0] - last_read - idle_timeout
    assert -1e-6 <= late <= interval / 3 + 2 * TICK + 1e-6  # the last check's tick, and its own


@pytest.mark.parametrize("idle_timeout", [120, 130, 180], ids=lambda seconds: f"{seconds} s")
@pytest.mark.asyncio
async def test_a_hanging_send_is_not_repeated_and_delays_no_death(
    idle_timeout: float, world: SteppedWorld
) -> None:
    begun = []
    timer = world.timer()

    async def hang() -> None:
        begun.append(timer.time())
        await asyncio.get_running_loop().create_future()

    link = Link(timer, send=hang, idle_timeout=idle_timeout)
    await world.run(1000)
    assert (begun, link.deaths) == ([60], [idle_timeout])
    await link.heart.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
async def test_a_send_that_ended_late_runs_again_on_the_next_silence(world: SteppedWorld) -> None:
    begun = []
    timer = world.timer()

    async def send() -> None:
        begun.append(timer.time())
        await timer.sleep(150)

    link = Link(timer, send=send, idle_timeout=600)
    await world.run(599)
    assert begun == [60, 220, 380, 540]
    await link.heart.aclose()


@pytest.mark.asyncio
async def test_a_full_timer_postpones_death_to_the_next_check(world: SteppedWorld) -> None:
    reported = reports()
    link = Link(world.timer(max_pending=1), idle_timeout=130)
    await world.run(1000)
    assert [type(context["exception"]) for context in reported] == [PurgatoryFull]
    assert link.deaths == [140]


# A loop that is blocked.


@pytest.mark.parametrize("blocked", [59.5, 200, 10_000], ids=lambda seconds: f"{seconds} s")
@pytest.mark.parametrize("idle_timeout", [120, 130, 180], ids=lambda seconds: f"{seconds} s")
@pytest.mark.asyncio
async def test_a_blocked_loop_does_not_kill_a_link_that_lives(
    blocked: float, idle_timeout: float, world: SteppedWorld
) -> None:
    link = Link(world.timer(), idle_timeout=idle_timeout)
    for _ in range(20):
        # Whatever is sent is answered within 2 s; while the loop is blocked, the answers lie in the buffers.
        for _ in range(50):
            pinged = len(link.pings)
            await world.run(2)
            if len(link.pings) > pinged:
                link.heart.saw_read()
        world.clock.move(blocked)
        world.clock.ring()
        await settle()
        assert link.heart.alive
        await world.run(0.5)
        link.heart.saw_read()
    assert link.deaths == []
    link.heart.close()


@pytest.mark.asyncio
async def test_a_silent_link_is_found_dead_after_the_loop_was_blocked(world: SteppedWorld) -> None:
    link = Link(world.timer())
    await world.run(65)
    world.clock.move(10_000)
    await world.run(180)
    assert len(link.deaths) == 1


@pytest.mark.asyncio
async def test_after_a_block_a_peer_has_whole_checks_to_be_heard(world: SteppedWorld) -> None:
    link = Link(world.timer(), idle_timeout=120)
    await world.run(61)
    world.clock.move(78.9)  # three checks are missed: of 80, 100 and 120; the next would be a tenth from now
    await world.run(39)
    assert link.deaths == []
    await world.run(2)
    assert link.deaths == [pytest.approx(179.9)]


def test_a_link_costs_at_most_three_checks_an_interval() -> None:
    clock, link = manual_link(interval=45, idle_timeout=100)
    happened = [0.0]
    while clock.time() < 45 * 100:
        time = clock.advance_to_next()
        assert time is not None
        happened.append(time)
        if len(happened) % 6 == 0:
            link.heart.saw_read()
    assert all(later - earlier >= 15 for earlier, later in pairwise(happened))
    link.heart.close()


@pytest.mark.parametrize("method", [Heartbeat.saw_read, Heartbeat.saw_write])
def test_to_see_something_costs_one_attribute_store(method: Callable[..., None]) -> None:
    names = [instruction.opname for instruction in dis.get_instructions(method)]
    assert [name for name in names if name.startswith("STORE")] == ["STORE_ATTR"]
    harmless = {"RESUME", "LOAD_CONST", "LOAD_FAST", "STORE_ATTR", "RETURN_CONST", "RETURN_VALUE"}
    assert set(names) - harmless - {"LOAD_FAST_BORROW", "NOT_TAKEN"} == set()


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
async def test_aclose_in_on_dead_cancels_a_hanging_ping_but_not_itself(world: SteppedWorld) -> None:
    events = []

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
