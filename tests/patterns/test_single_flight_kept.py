"""Results that are kept for a time, in a bounded number; and calls and results that are forgotten."""

import asyncio

import pytest

from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import settle
from tests.patterns.flights import Service, callers
from tests.patterns.waiters import Waiter, ends, let_pass

pytestmark = pytest.mark.asyncio


@pytest.fixture
def service():
    return Service()


def returning(result):
    async def make():
        return result

    return make


async def no_call():
    raise AssertionError("it was called")


# Kept.


async def test_a_result_is_given_at_once_for_its_time(purgatory, manual_clock):
    flight, others = SingleFlight(purgatory, keep=5), []
    page = object()
    manual_clock.advance(0.3)
    assert await flight.run("k", returning(page)) is page
    asyncio.get_running_loop().call_soon(others.append, "ran")
    assert await flight.run("k", no_call) is page
    assert others == []
    assert repr(flight) == "<SingleFlight in 'purgatory of the test' flights=0 kept=1>"
    manual_clock.advance(4.999999999)
    assert await flight.run("k", no_call, timeout=0) is page
    manual_clock.advance(0.000000001)
    assert await flight.run("k", returning("another")) == "another"


async def test_its_time_begins_when_the_result_has_come(purgatory, manual_clock, service):
    flight = SingleFlight(purgatory, keep=5)
    (one,) = await callers(flight, service.fetch, 1)
    manual_clock.advance(60)
    service.answer(None)
    assert await one.end() is None
    manual_clock.advance(4)
    assert await flight.run("k", no_call) is None
    assert "k" not in flight


async def test_nothing_is_on_the_timer(purgatory):
    flight = SingleFlight(purgatory, keep=5)
    await flight.run("k", returning(1))
    assert (purgatory.timer.pending, purgatory.timer.next_deadline) == (0, None)


async def test_without_keep_nothing_is_kept(purgatory):
    flight = SingleFlight(purgatory)
    await flight.run("k", returning(1))
    assert await flight.run("k", returning(2)) == 2
    assert flight.forget("k") is False


async def test_an_exception_is_not_kept(purgatory):
    flight = SingleFlight(purgatory, keep=5)
    with pytest.raises(ZeroDivisionError):
        await flight.run("k", lambda: 1 / 0)
    assert await flight.run("k", returning(1)) == 1


async def test_the_oldest_results_make_room(purgatory):
    flight = SingleFlight(purgatory, keep=5, max_kept=2)
    for key in "abc":
        await flight.run(key, returning(key))
    assert [await flight.run(key, no_call) for key in "bc"] == ["b", "c"]
    assert await flight.run("a", returning("again")) == "again"
    assert [flight.forget(key) for key in "abc"] == [True, False, True]


async def test_results_that_are_too_old_make_room_first(purgatory, manual_clock):
    flight = SingleFlight(purgatory, keep=5, max_kept=1000)
    for key in range(100):
        await flight.run(key, returning(key))
    manual_clock.advance(5)
    await flight.run("new", returning("new"))
    assert "kept=1>" in repr(flight)
    manual_clock.advance(5)
    assert flight.forget("new") is False


async def test_a_result_that_comes_as_the_last_caller_leaves_is_kept(purgatory, service):
    flight = SingleFlight(purgatory, keep=5)
    (one,) = await callers(flight, service.fetch, 1)
    service.answer("a page")
    await let_pass(2)  # the call has ended, and its caller has yet to run
    one.cancel()
    assert await one.end() == "cancelled"
    assert await flight.run("k", no_call) == "a page"


# Forgotten.


async def test_a_forgotten_call_goes_on_for_its_callers(purgatory, service):
    flight = SingleFlight(purgatory, keep=5)
    former = await callers(flight, service.fetch, 2)
    assert flight.forget("k") is True
    assert (flight.forget("k"), "k" in flight, len(flight)) == (False, False, 1)
    later = await callers(flight, service.fetch, 2)
    assert (service.calls, "k" in flight, len(flight)) == (2, True, 2)
    service.answers[1].set_result("new")
    assert await ends(later) == ["new"] * 2
    service.answers[0].set_result("old")
    assert await ends(former) == ["old"] * 2
    assert await flight.run("k", no_call) == "new"
    assert len(flight) == 0


async def test_a_forgotten_calls_result_is_not_kept(purgatory, service):
    flight = SingleFlight(purgatory, keep=5)
    (one,) = await callers(flight, service.fetch, 1)
    flight.forget("k")
    service.answer("old")
    assert await one.end() == "old"
    assert flight.forget("k") is False


async def test_a_forgotten_call_is_cancelled_when_it_is_left(purgatory, service):
    flight = SingleFlight(purgatory)
    (former,) = await callers(flight, service.fetch, 1)
    flight.forget("k")
    (later,) = await callers(flight, service.fetch, 1)
    former.cancel()
    await settle()
    assert (service.cancelled, len(flight), "k" in flight) == (1, 1, True)
    service.answer("new")
    assert await later.end() == "new"


async def test_forgetting_a_clean_up_lets_newcomers_overlap(purgatory):
    flight, service = SingleFlight(purgatory, keep=5), Service(clean_up=20)
    (gone,) = await callers(flight, service.fetch, 1)
    gone.cancel()
    await let_pass(3)
    waits = Waiter(flight.run("k", service.fetch))
    await let_pass(2)
    assert service.calls == 1
    assert flight.forget("k") is True
    overlaps = Waiter(flight.run("k", service.fetch))
    await let_pass(2)
    assert (service.calls, service.running, len(flight)) == (2, 2, 2)
    service.answer("new")
    assert await overlaps.end() == "new"
    await settle()
    assert (service.calls, "k" in flight) == (3, False)
    service.answer("of the forgotten one")
    assert await waits.end() == "of the forgotten one"
    assert await flight.run("k", no_call) == "new"


async def test_a_kept_result_is_forgotten(purgatory):
    flight = SingleFlight(purgatory, keep=5)
    await flight.run("k", returning(1))
    assert flight.forget("k") is True
    assert await flight.run("k", returning(2)) == 2
