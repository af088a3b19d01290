"""A `Reply` in a ``with`` block: a request that could not be sent is given up."""

import pytest

from purgatory_async import OperationCancelled, Purgatory, Timer
from purgatory_async.patterns import Correlator
from purgatory_async.testing import ManualClock, assert_clean

pytestmark = pytest.mark.asyncio


@pytest.fixture
def purgatory():
    with_clock = Purgatory(timer=Timer(clock=ManualClock()))
    yield with_clock
    assert_clean(with_clock)


async def test_a_failed_sending_gives_the_request_up(purgatory):
    calls = Correlator(purgatory)
    with pytest.raises(BrokenPipeError), calls.expect(1, timeout=5) as reply:
        raise BrokenPipeError
    assert purgatory.pending == 0
    with pytest.raises(OperationCancelled):
        await reply
    assert (calls.resolve(1, "late"), calls.late) == (False, 1)


async def test_a_reply_that_has_come_is_kept(purgatory):
    calls = Correlator(purgatory)
    with calls.expect(1, timeout=5) as reply:
        calls.resolve(1, "pong")
    assert await reply == "pong"
