"""Every peer waits alike: true when answered, false on timeout, and nothing is left behind."""

import asyncio

import pytest

from bench.proposal.contestant import Tally
from bench.proposal.waits import WAITS, waiting_contestant
from purgatory_async.testing import VirtualTimeLoop, settle
from tests.bench.proposal.made import point


@pytest.fixture(params=WAITS)
def in_virtual_time(request):
    """Runs a test's coroutine with a contestant; its request number 7 is about to wait."""

    def run(body):
        async def main():
            tally = Tally()
            contestant = waiting_contestant(point(request.param), tally)
            await body(contestant, tally)
            await settle()
            assert contestant.entries == 0
            contestant.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not others, f"{others} are still there"

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main())

    return run


def test_who_is_answered_comes_back_with_true(in_virtual_time):
    async def body(contestant, _):
        waiting = asyncio.ensure_future(contestant.wait(7))
        await asyncio.sleep(0.1)
        assert contestant.entries == 1
        contestant.answer(7)
        assert await waiting is True

    in_virtual_time(body)


def test_whose_time_is_up_comes_back_with_false_and_not_before(in_virtual_time):
    async def body(contestant, _):
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await contestant.wait(7) is False
        assert 0.2 <= loop.time() - began <= 0.202

    in_virtual_time(body)


def test_an_answer_lets_only_its_own_key_go(in_virtual_time):
    async def body(contestant, _):
        waiting = [asyncio.ensure_future(contestant.wait(key)) for key in (1, 2)]
        await asyncio.sleep(0.1)
        contestant.answer(2)
        assert await asyncio.gather(*waiting) == [False, True]

    in_virtual_time(body)


def test_a_late_or_unexpected_answer_does_nothing(in_virtual_time):
    async def body(contestant, _):
        contestant.answer(7)
        assert await contestant.wait(7) is False
        contestant.answer(7)

    in_virtual_time(body)


def test_who_is_cancelled_leaves_nothing_behind(in_virtual_time):
    async def body(contestant, _):
        waiting = asyncio.ensure_future(contestant.wait(7))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0.2)  # an operation has a life of its own, and goes when its time is up

    in_virtual_time(body)


def test_requests_are_counted_and_expired_ones_have_lateness(in_virtual_time):
    # The fault: a request that was answered counts as late, so that lateness is of both.
    async def body(contestant, tally):
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

    in_virtual_time(body)
