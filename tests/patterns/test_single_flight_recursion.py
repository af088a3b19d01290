"""A call that would wait for itself is refused, wherever it comes from; one that only looks like it is not."""

import asyncio

import pytest

from purgatory_async import PurgatoryError
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import settle
from tests.patterns.flights import Service
from tests.patterns.waiters import Waiter, ends, let_pass

pytestmark = pytest.mark.asyncio

REFUSED = r"the call for 'a' is waiting for <flight of '[ab]'>: cannot wait for it there"


@pytest.fixture
def flight(purgatory):
    return SingleFlight(purgatory)


def calling(flight, *keys):
    """A function that calls for the first key, whose call calls for the next one, and so on."""

    async def make():
        if keys:
            return await flight.run(keys[0], calling(flight, *keys[1:]))
        return "the end"

    return make


@pytest.mark.parametrize("through", ["", "b", "bcdefg"])
async def test_recursion_is_refused_through_other_keys_too(flight, through):
    with pytest.raises(PurgatoryError, match="cannot wait for it there"):
        await flight.run("a", calling(flight, *through, "a"))
    assert len(flight) == 0
    assert await flight.run("a", calling(flight, *through)) == "the end"


async def test_recursion_is_refused_through_another_pattern(flight, purgatory):
    other = SingleFlight(purgatory)
    with pytest.raises(PurgatoryError, match=REFUSED):
        await flight.run("a", lambda: other.run("a", lambda: flight.run("a", calling(flight))))
    assert await flight.run("a", lambda: other.run("a", calling(flight))) == "the end"


async def test_recursion_is_refused_in_tasks_begun_there(flight):
    async def make():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(flight.run("a", calling(flight)))
        return task.result()

    with pytest.raises(ExceptionGroup) as raised:
        await flight.run("a", make)
    assert raised.group_contains(PurgatoryError, match=REFUSED)


async def test_recursion_is_refused_after_forget(flight):
    async def make():
        flight.forget("a")
        return await flight.run("a", calling(flight))

    with pytest.raises(PurgatoryError, match=REFUSED):
        await flight.run("a", make)


async def test_it_may_be_caught_and_the_call_goes_on(flight):
    async def make():
        with pytest.raises(PurgatoryError, match=REFUSED):
            await flight.run("a", calling(flight))
        return await calling(flight)()

    assert await flight.run("a", make) == "the end"


async def test_calls_begun_apart_may_not_wait_for_each_other(flight):
    begun, go_on = Service(), calling(flight)

    def waiting_for(key):
        async def make():
            await begun.fetch()
            return await flight.run(key, go_on)

        return make

    several = [Waiter(flight.run(key, waiting_for(other))) for key, other in ("ab", "bc", "ca")]
    await settle()
    for answer in begun.answers:
        answer.set_result(None)
    assert [type(end) for end in await ends(several)] == [
        PurgatoryError
    ] * 3  # one was refused, and failed the others


async def test_a_clean_up_may_not_wait_for_its_heir(flight):
    refused = []

    async def make():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await let_pass(3)
            with pytest.raises(PurgatoryError, match="cannot wait for it there"):
                await flight.run("b", waits_for_a)
            refused.append(True)

    async def waits_for_a():
        return await flight.run("a", calling(flight))

    gone = Waiter(flight.run("a", make))
    await let_pass(3)
    gone.cancel()
    await let_pass(2)
    heir = Waiter(flight.run("a", calling(flight)))
    assert await heir.end() == "the end"
    assert refused == [True]


async def test_two_calls_may_wait_for_a_third(flight):
    service = Service()

    async def make():
        return await asyncio.gather(flight.run("c", service.fetch), flight.run("c", service.fetch))

    several = [Waiter(flight.run(key, make)) for key in "ab"]
    await settle()
    assert service.calls == 1
    service.answer("a page")
    assert await ends(several) == [["a page"] * 2] * 2


async def test_a_task_that_has_outlived_its_call_may_call_again(flight):
    tasks, service = [], Service()

    async def later(times):
        await service.fetch()
        return await flight.run("a", lambda: make(times - 1))

    async def make(times):
        if times:
            tasks.append(asyncio.create_task(later(times)))
        return times

    assert await flight.run("a", lambda: make(3)) == 3
    for _ in range(3):
        await settle()
        service.answer(None)
    assert await asyncio.gather(*tasks) == [2, 1, 0]


async def test_a_task_that_outlives_an_inner_call_is_in_the_outer(flight):
    inner_ended, tasks = asyncio.Event(), []

    async def later():
        await inner_ended.wait()
        return await flight.run("a", calling(flight))

    async def inner():
        tasks.append(asyncio.create_task(later()))

    async def outer():
        await flight.run("b", inner)
        inner_ended.set()
        await asyncio.wait(tasks)

    await flight.run("a", outer)
    assert type(tasks[0].exception()) is PurgatoryError
