"""When a poll that is refused or let go with 503 shall come back."""

import pytest

from purgatory_async import Purgatory
from purgatory_async.testing import settle
from tests.web.exchange import Exchange

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("retry_after", "fraction", "seconds"),
    [
        ((0, 1), 0.0, "0"),
        ((0, 1), 1.0, "1"),
        ((1, 10), 0.5, "6"),
        ((2.5, 2.5), 0.9, "3"),
        ((60, 60), 0.0, "60"),
    ],
)
async def test_the_application_says_when_refused_clients_come_back(retry_after, fraction, seconds):
    terms = {"draw": lambda: fraction, "retry_after": retry_after}
    async with Purgatory(max_pending=1) as purgatory:
        held = Exchange(purgatory.wait, "k", **terms).start()
        full = Exchange(purgatory.wait, "k", **terms).start()
        await settle()
    await settle()
    assert (full.status, held.status) == (503, 503)
    assert full.headers["retry-after"] == held.headers["retry-after"] == seconds


@pytest.mark.parametrize("retry_after", [1, (1,), "12", ("0", "1"), None])
async def test_a_range_to_come_back_is_a_pair_of_seconds(purgatory, retry_after):
    with pytest.raises(TypeError, match=r"retry_after must be a pair of seconds like \(0, 1\)"):
        await Exchange(purgatory.wait, "k", retry_after=retry_after).running


@pytest.mark.parametrize("retry_after", [(-1, 1), (2, 1), (0, float("nan")), (0, float("inf"))])
async def test_a_range_to_come_back_rises_within_its_bounds(purgatory, retry_after):
    with pytest.raises(ValueError, match="retry_after must rise, from 0 to 3155760000 seconds, got "):
        await Exchange(purgatory.wait, "k", retry_after=retry_after).running
