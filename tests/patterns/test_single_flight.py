"""Concurrent callers share one call; one that leaves only leaves, and the last one's leaving ends the call, or not."""

import asyncio
from contextvars import ContextVar

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.core.recording import errors_of_loop
from tests.patterns.flights import Service, callers
from tests.patterns.waiters import Waiter, each_way, ends, let_pass, waiting

pytestmark = pytest.mark.asyncio

caller: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
def flight(purgatory):
    return SingleFlight(purgatory)


@pytest.fixture
def service():
    return Service()


# Sharing.


async def test_concurrent_callers_share_one_call(flight, service):
    several = await callers(flight, service.fetch, 3)
    assert (service.calls, len(flight), "k" in flight) == (1, 1, True)
    assert repr(flight) == "<SingleFlight in 'purgatory of the test' flights=1 kept=0>"
    page = object()
    service.answer(page)
    assert await ends(several) == [page] * 3
    assert (service.calls, len(flight), "k" in flight) == (1, 0, False)


async def test_once_it_has_ended_the_next_caller_calls_anew(flight, service):
    for number in range(2):
        (one,) = await callers(flight, service.fetch, 1)
        service.answer(number)
        assert await one.end() == number


async def test_each_key_has_a_call_of_its_own(flight, service):
    first, second = await waiting(flight.run("a", service.fetch), flight.run("b", service.fetch))
    assert (service.calls, len(flight)) == (2, 2)
    service.answers[0].set_result("of a")
    service.answers[1].set_result("of b")
    assert await ends([first, second]) == ["of a", "of b"]


async def test_two_on_one_purgatory_do_not_meet(flight, purgatory, service):
    other = SingleFlight(purgatory)
    several = await waiting(flight.run("k", service.fetch), other.run("k", service.fetch))
    assert service.calls == 2
    service.answers[0].set_result(0)
    service.answers[1].set_result(1)
    assert await ends(several) == [0, 1]


async def test_it_runs_in_a_task_and_context_of_its_own(flight):
    seen = []

    async def make():
        seen.append((caller.get(), asyncio.current_task()))
        caller.set("the call")
        await asyncio.sleep(0)

    async def run(name):
        caller.set(name)
        await flight.run("k", make)
        return caller.get()

    tasks = [asyncio.create_task(run(name)) for name in ("first", "second")]
    assert await asyncio.gather(*tasks) == ["first", "second"]
    ((name, task),) = seen
    assert name == "first"
    assert task not in [*tasks, asyncio.current_task()]


async def test_a_plain_function_may_return_any_awaitable(flight):
    future = asyncio.get_running_loop().create_future()
    future.set_result("done")
    assert await flight.run("k", lambda: future) == "done"
    with pytest.raises(TypeError, match=r"make must return an awaitable, but .*lambda.* returned 3"):
        await flight.run("k", lambda: 3)


# Leaving.


@each_way
async def test_a_cancelled_caller_only_leaves(flight, service, way):
    (first,) = await waiting(flight.run("k", service.fetch), way=way)
    others = await callers(flight, service.fetch, 2)
    first.cancel()
    await let_pass(way.lead)
    await settle()
    assert (first.got, service.calls, service.cancelled) == ("cancelled", 1, 0)
    service.answer("a page")
    assert await ends(others) == ["a page"] * 2


async def test_a_caller_out_of_time_only_leaves(flight, service, manual_clock):
    hasty, patient = await waiting(*[flight.run("k", service.fetch, timeout=timeout) for timeout in (1, 2)])
    manual_clock.advance(1)
    expired = await hasty.end()
    assert type(expired) is OperationExpired
    assert (expired.keys, expired.timeout) == (("k",), 1)
    assert str(expired) == "the result of 'k' did not come within 1 s"
    service.answer("a page")
    assert await patient.end() == "a page"


@pytest.mark.parametrize("leave", ["cancelled", "expired", "closed"])
async def test_the_call_is_cancelled_when_the_last_has_left(flight, purgatory, manual_clock, service, leave):
    several = await callers(flight, service.fetch, 2, timeout=5)
    if leave == "expired":
        manual_clock.advance(5)
    elif leave == "closed":
        purgatory.close()
    else:
        several[0].cancel()
        await settle()
        assert service.cancelled == 0
        several[1].cancel()
    await settle()
    assert (service.cancelled, len(flight), "k" in flight) == (1, 0, False)
    assert_clean(purgatory)


@pytest.mark.parametrize("leave", ["cancelled", "expired", "closed"])
async def test_it_may_finish_without_callers(purgatory, manual_clock, service, leave):
    flight = SingleFlight(purgatory, when_left="finish", keep=60)
    (one,) = await callers(flight, service.fetch, 1, timeout=5)
    if leave == "expired":
        manual_clock.advance(5)
    elif leave == "closed":
        purgatory.close()
    else:
        one.cancel()
    await settle()
    assert (service.cancelled, len(flight)) == (0, 1)
    if leave != "closed":
        (newcomer,) = await callers(flight, service.fetch, 1)
        newcomer.cancel()
        await settle()
    service.answer("a page")
    await settle()
    assert (service.calls, len(flight)) == (1, 0)
    if leave != "closed":
        assert await flight.run("k", service.fetch) == "a page"


async def test_left_before_its_first_step_it_is_not_called(flight, service):
    task = asyncio.Task(flight.run("k", service.fetch))  # lazy, also where tasks begin eagerly
    await asyncio.sleep(0)
    task.cancel()
    await settle()
    assert service.running == len(flight) == 0


async def test_left_as_its_result_comes_it_leaves_nothing(flight, service, purgatory):
    (one,) = await callers(flight, service.fetch, 1)
    service.answer("a page")
    await asyncio.sleep(0)
    one.cancel()
    await settle()
    assert (one.got, len(flight), "k" in flight) == ("cancelled", 0, False)
    assert_clean(purgatory)


# Coming while a call that all have left cleans up.


async def left(flight, service):
    """A call that all have left, and that still cleans up."""
    (one,) = await callers(flight, service.fetch, 1)
    one.cancel()
    await let_pass(3)
    assert (service.running, len(flight), "k" in flight) == (1, 1, True)


async def test_newcomers_wait_for_the_clean_up(flight):
    service = Service(clean_up=20)
    await left(flight, service)
    several = [Waiter(flight.run("k", service.fetch)) for _ in range(3)]
    await let_pass(10)
    assert (service.calls, len(flight)) == (1, 1)
    await settle()
    assert (service.calls, service.running, len(flight)) == (2, 1, 1)
    service.answer("a page")
    assert await ends(several) == ["a page"] * 3
    assert service.most_at_once == 1


async def test_the_first_newcomer_gives_make_and_context(flight):
    service, seen = Service(clean_up=20), []
    await left(flight, service)

    async def make(name):
        seen.append((name, caller.get()))

    async def run(name):
        caller.set(name)
        await flight.run("k", lambda: make(name))

    several = [Waiter(run(name)) for name in ("second", "third")]
    await ends(several)
    assert seen == [("second", "second")]


async def test_newcomers_that_leave_too_call_nothing(flight, purgatory):
    service, seen = Service(clean_up=20), []
    await left(flight, service)
    gone = Waiter(flight.run("k", service.fetch))
    await let_pass(2)
    gone.cancel()
    await let_pass(2)

    async def make():
        seen.append("called")

    stays = Waiter(flight.run("k", make))
    await stays.end()
    assert (service.calls, seen) == (1, ["called"])
    await left(flight, service)
    gone = Waiter(flight.run("k", service.fetch))
    await let_pass(2)
    gone.cancel()
    await settle()
    assert (service.calls, len(flight), "k" in flight) == (2, 0, False)
    assert_clean(purgatory)


async def test_the_timeout_covers_the_clean_up_and_the_call(flight, manual_clock):
    service = Service(clean_up=20)
    await left(flight, service)
    one, other = [Waiter(flight.run("k", service.fetch, timeout=timeout)) for timeout in (1, 3)]
    await let_pass(2)
    manual_clock.advance(1)
    assert type(await one.end()) is OperationExpired
    await settle()
    assert service.calls == 2
    manual_clock.advance(2)
    assert type(await other.end()) is OperationExpired
    await settle()
    assert len(flight) == 0


async def test_a_call_that_ignores_its_cancellation_is_waited_for(purgatory):
    flight, service = SingleFlight(purgatory, keep=60), Service()

    async def stubborn():
        try:
            return await service.fetch()
        except asyncio.CancelledError:
            return await service.fetch()

    (one,) = await callers(flight, stubborn, 1)
    one.cancel()
    await settle()
    (newcomer,) = await callers(flight, service.fetch, 1)
    assert (service.calls, len(flight)) == (2, 1)
    service.answer("of a cancelled call")
    await settle()
    assert service.calls == 3
    assert "kept=0>" in repr(flight)
    service.answer("a page")
    assert await newcomer.end() == "a page"


# Closing, draining, and other refusals.


async def answered(flight, service, key):
    """A call whose result is kept."""
    (one,) = await callers(flight, service.fetch, 1, key=key)
    service.answer(key)
    assert await one.end() == key


async def test_closing_ends_the_callers_and_refuses_others(purgatory, service):
    flight = SingleFlight(purgatory, keep=60)
    await answered(flight, service, "kept")
    several = await callers(flight, service.fetch, 2)
    purgatory.close()
    await settle()
    for waiter in several:
        assert type(waiter.got) is PurgatoryClosed
        assert waiter.got.keys == ("k",)
    for key in ("k", "kept"):
        with pytest.raises(PurgatoryClosed, match=f"is closed: cannot call for '{key}'"):
            await flight.run(key, service.fetch)
    assert (service.calls, service.cancelled, len(flight)) == (2, 1, 0)


async def test_a_draining_purgatory_refuses_what_would_wait(purgatory, service):
    flight = SingleFlight(purgatory, keep=60)
    await answered(flight, service, "kept")
    several = await callers(flight, service.fetch, 2)
    drained = asyncio.create_task(purgatory.drain())
    await settle()
    assert await flight.run("kept", service.fetch) == "kept"
    for key in ("k", "new"):
        with pytest.raises(PurgatoryClosed, match="draining") as refused:
            await flight.run(key, service.fetch)
        assert refused.value.keys == (key,)
    assert "new" not in flight
    service.answer("a page")
    assert await ends(several) == ["a page"] * 2
    assert await drained is True


async def test_a_full_purgatory_refuses_before_it_calls(service):
    purgatory = Purgatory(timer=Timer(clock=ManualClock()), max_pending=1)
    flight = SingleFlight(purgatory)
    (one,) = await callers(flight, service.fetch, 1)
    for key in ("k", "other"):
        with pytest.raises(PurgatoryFull):
            await flight.run(key, service.fetch)
    assert (service.calls, len(flight), "other" in flight) == (1, 1, False)
    service.answer("a page")
    assert await one.end() == "a page"
    assert_clean(purgatory)


@pytest.mark.parametrize("end", ["raised", "of its task"])
async def test_a_cancellation_from_inside_is_an_error_of_its_own(flight, end):
    tasks = []

    async def make():
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        if end == "raised":
            raise asyncio.CancelledError
        await asyncio.get_running_loop().create_future()

    several = await callers(flight, make, 2)
    if end == "of its task":
        tasks[0].cancel()
    first, second = await ends(several)
    assert type(first) is type(second) is OperationCancelled
    assert first is not second
    assert (first.keys, str(first)) == (("k",), "the call for 'k' was cancelled")


async def test_without_time_a_call_begins_and_is_left(flight, service):
    with pytest.raises(OperationExpired):
        await flight.run("k", service.fetch, timeout=0)
    await settle()
    assert (len(flight), service.running, errors_of_loop()) == (0, 0, [])
