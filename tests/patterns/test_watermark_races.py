"""Events of one pass at a watermark: they apply in order, and a cancelled value can be waited for again."""

import pytest

from purgatory_async import OperationExpired, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import settle
from tests.patterns.guests import Guest

pytestmark = pytest.mark.asyncio


@pytest.fixture
def high(manual_clock):
    """At zero."""
    return Watermark(timer=Timer(clock=manual_clock))


async def test_a_newcomer_to_a_value_of_cancelled_waiters_waits(high):
    guests = [Guest(high.reach(5)) for _ in range(2)]
    await settle()
    newcomer = Guest(high.reach(5))
    for guest in guests:
        guest.cancel()
    await settle()
    assert high.waiting == 1
    assert high.advance(5) == 1
    assert await newcomer.end() == 5


async def test_advance_and_fail_all_in_one_pass_apply_in_order(high):
    lost = KeyError("office lost")
    guests = [Guest(high.reach(value)) for value in (3, 5, 8)]
    await settle()
    assert [high.advance(5), high.fail_all(lost), high.advance(5)] == [2, 1, 0]
    assert [await guest.end() for guest in guests] == [5, 5, lost]


async def test_an_advance_spares_waits_above_it_that_were_cancelled(high):
    guests = [Guest(high.reach(value)) for value in (3, 8)]
    await settle()
    for guest in guests:
        guest.cancel()
    assert high.advance(5) == 0
    assert high.waiting == 1  # the one above, whose task has yet to run
    assert [await guest.end() for guest in guests] == ["cancelled"] * 2


async def test_fail_all_with_an_expiry_exception_keeps_real_expiries(high, manual_clock):
    given = OperationExpired("of another wait")
    expires, fails = Guest(high.reach(1, 1)), Guest(high.reach(1, 2))
    await settle()
    manual_clock.advance(1)
    assert high.fail_all(given) == 1
    own = await expires.end()
    assert type(own) is OperationExpired
    assert own is not given
    assert await fails.end() is given
