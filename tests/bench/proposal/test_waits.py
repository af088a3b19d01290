"""Every peer waits alike: true when answered, false on timeout, and nothing is left behind."""

import asyncio

import pytest

from bench.proposal.contestant import Tally
from bench.proposal.waits import WAITS, waiting_contestant
from purgatory_async.testing import settle
from tests.bench.proposal.made import point

pytestmark = [
    pytest.mark.asyncio(loop_factories=["virtual"]),
    pytest.mark.parametrize("name", WAITS),
]


async def ended(contestant):
    await settle()
    assert contestant.entries == 0
    contestant.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_answer_lets_only_its_own_key_go_before_its_time(name):
    contestant, loop = waiting_contestant(point(name), Tally()), asyncio.get_running_loop()
    contestant.answer(1)  # for nobody: it does nothing
    began = loop.time()
    waiting = [asyncio.ensure_future(contestant.wait(key)) for key in (1, 2)]
    await asyncio.sleep(0.1)
    assert contestant.entries == 2
    contestant.answer(2)
    assert await waiting[1] is True
    assert loop.time() - began <= 0.102
    assert await waiting[0] is False
    assert 0.2 <= loop.time() - began <= 0.202
    contestant.answer(1)
    await ended(contestant)


async def test_who_is_cancelled_leaves_nothing_behind(name):
    contestant = waiting_contestant(point(name), Tally())
    waiting = asyncio.ensure_future(contestant.wait(7))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.2)  # an operation has a life of its own, and goes when its time is up
    await ended(contestant)


async def test_requests_are_counted_and_only_expired_ones_are_late(name):
    # The fault: a request that was answered counts as late, so that lateness is of both.
    tally = Tally()
    contestant = waiting_contestant(point(name), tally)
    handles = [contestant.submit(number) for number in range(10)]
    assert (tally.submitted, tally.ended) == (10, 0)
    await asyncio.sleep(0.1)
    for handle in handles[:4]:
        contestant.answer(handle)
    await asyncio.sleep(0.05)
    assert (tally.ended, len(tally.lateness_ns)) == (4, 0)
    await asyncio.sleep(0.1)
    assert (tally.submitted, tally.ended, len(tally.lateness_ns)) == (10, 10, 6)
    assert contestant._tasks == {}
    await ended(contestant)
