"""Tasks that await a quorum: cancelled or not, each learns its own end and disturbs no other."""

import asyncio

import pytest

from purgatory_async import Outcome, Purgatory, Timer
from purgatory_async.patterns import Quorum
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.patterns.guests import Guest, after_passes, awaiting, each_way
from tests.patterns.test_quorum import BROKERS, watched


@pytest.mark.asyncio
async def test_all_that_await_it_learn_of_its_end(purgatory):
    quorum = watched(purgatory, Quorum(2))
    guests = [Guest(awaiting(quorum)) for _ in range(3)]
    await settle()
    quorum.vote("a")
    await settle()
    assert not any(guest.task.done() for guest in guests)
    quorum.vote("b")
    assert [await guest.end() for guest in guests] == [Outcome.COMPLETED] * 3


@pytest.mark.asyncio
@each_way
async def test_cancelled_just_before_the_last_vote_only_that_task_ends(guest, purgatory):
    quorum = watched(purgatory, Quorum(1, timeout=5))
    cancelled, other = guest(awaiting(quorum)), Guest(awaiting(quorum))
    await settle()
    cancelled.cancel_before(lambda: quorum.vote("leader"))
    assert await cancelled.end() == "cancelled"
    assert await other.end() is Outcome.COMPLETED
    assert quorum.result == {"leader"}


@pytest.mark.asyncio
@each_way
async def test_cancelled_just_after_the_last_vote_only_that_task_ends(guest, purgatory):
    quorum = watched(purgatory, Quorum(1, timeout=5))
    cancelled, other = guest(awaiting(quorum)), Guest(awaiting(quorum))
    await settle()
    cancelled.cancel_after(lambda: quorum.vote("leader"))
    assert await cancelled.end() == ("cancelled" if guest.reached_late else Outcome.COMPLETED)
    assert await other.end() is Outcome.COMPLETED
    assert quorum.result == {"leader"}


@pytest.mark.asyncio
@each_way
async def test_a_quorum_whose_only_task_was_cancelled_is_still_counted(guest, purgatory):
    quorum = watched(purgatory, Quorum(1))
    cancelled = guest(awaiting(quorum))
    await settle()
    cancelled.cancel_before(lambda: quorum.vote("leader"))
    assert await cancelled.end() == "cancelled"
    assert (quorum.outcome, quorum.result) == (Outcome.COMPLETED, {"leader"})


@pytest.mark.asyncio
@pytest.mark.parametrize("event", ["the last vote", "the deadline"])
@pytest.mark.parametrize("passes", [1, 2, 3, 8])
async def test_a_cancelled_awaiter_disturbs_neither_quorum_nor_others(event, passes):
    runs: list[tuple[Purgatory, Quorum[str], asyncio.Task[Outcome]]] = []

    async def scenario() -> None:
        clock = ManualClock()
        purgatory = Purgatory(timer=Timer(clock=clock))
        quorum = watched(purgatory, Quorum(2, of=BROKERS, timeout=5))
        quorum.vote("leader")
        runs.append((purgatory, quorum, asyncio.create_task(awaiting(quorum))))
        after_passes(passes, lambda: quorum.vote("first") if event == "the last vote" else clock.advance(5))
        await quorum

    points = await cancel_sweep(scenario)
    assert points >= 1
    await settle()
    assert len(runs) == 1 + 2 * points  # the one cancelled before its first step has none
    expected = (
        (Outcome.COMPLETED, {"leader", "first"})
        if event == "the last vote"
        else (Outcome.EXPIRED, {"leader"})
    )
    for purgatory, quorum, other in runs:
        assert (quorum.outcome, quorum.result) == expected
        assert await other is expected[0]
        assert_clean(purgatory)
