"""Every design as a contestant: its requests count themselves, carry a payload and use the right wheel."""

import asyncio

import pytest

from bench.designs import DESIGNS
from bench.proposal.callbacks import KEYS, callback_contestant
from bench.proposal.contestant import Tally
from tests.bench.proposal.made import point


@pytest.mark.parametrize("name", DESIGNS)
def test_a_request_counts_once_taken_and_once_answered(name):
    async def main():
        tally = Tally()
        contestant = callback_contestant(point(name), tally)
        request = contestant.submit(0)
        assert (tally.submitted, tally.ended) == (1, 0)
        assert len(request.payload) == 100
        assert contestant.entries == len(KEYS)
        contestant.answer(request)
        contestant.answer(request)
        assert (tally.submitted, tally.ended, tally.lateness_ns) == (1, 1, [])
        assert contestant.entries == (len(KEYS) if DESIGNS[name].traits.purge_interval else 0)
        contestant.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", DESIGNS)
def test_an_expired_request_is_counted_with_its_lateness(name):
    async def main():
        tally = Tally()
        contestant = callback_contestant(point(name, timeout_ms=5), tally)
        contestant.submit(0)
        give_up = asyncio.get_running_loop().time() + 30
        while not tally.lateness_ns:
            assert asyncio.get_running_loop().time() < give_up
            await asyncio.sleep(0.001)
        contestant.close()
        assert (tally.ended, len(tally.lateness_ns)) == (1, 1)
        assert tally.lateness_ns[0] >= -1e6 * (DESIGNS[name].traits.early_ms + 0.5)

    asyncio.run(main())
