"""A call that would wait for itself is refused, wherever it comes from; one that only looks like it is not."""

import asyncio
import re

import pytest

from purgatory_async import PurgatoryError
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import settle
from tests.patterns.flights import Service
from tests.patterns.waiters import Waiter, ends

pytestmark = pytest.mark.asyncio

REFUSED = r"the call for 'a' is waiting for <flight of '[a-g]'>: cannot wait for it there"


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


async def end_of(flight, make):
    """How a call for ``"a"`` ends; where a recursion is not noticed, it fails, and does not wait for ever."""
    return await Waiter(flight.run("a", make)).end()


def refused(end):
    return type(end) is PurgatoryError and re.match(REFUSED, str(end)) is not None


@pytest.mark.parametrize("through", ["", "b", "bcdefg"])
async def test_recursion_is_refused_through_other_keys_too(flight, through):
    assert refused(await end_of(flight, calling(flight, *through, "a")))
    assert len(flight) == 0
    assert await end_of(flight, calling(flight, *through)) == "the end"


async def test_recursion_is_refused_through_another_pattern(flight, purgatory):
    other = SingleFlight(purgatory)
    assert refused(await end_of(flight, lambda: other.run("a", lambda: flight.run("a", calling(flight)))))
    assert await end_of(flight, lambda: other.run("a", calling(flight))) == "the end"


async def test_recursion_is_refused_in_tasks_begun_there(flight):
    async def make():
        return await asyncio.create_task(flight.run("a", calling(flight)))

    assert refused(await end_of(flight, make))


async def test_recursion_is_refused_after_forget(flight):
    async def make():
        flight.forget("a")
        return await flight.run("a", calling(flight))

    assert refused(await end_of(flight, make))


async def test_it_may_be_caught_and_the_call_goes_on(flight):
    async def make():
        with pytest.raises(PurgatoryError, match=REFUSED):
            await flight.run("a", calling(flight))
        return await calling(flight)()

    assert await end_of(flight, make) == "the end"


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
    heir_came, cleaning_up = asyncio.Event(), asyncio.Event()

    async def make():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaning_up.set()
            with pytest.raises(PurgatoryError, match=REFUSED):
                await flight.run("b", calls_for_a)

    async def calls_for_a():
        await heir_came.wait()
        return await flight.run("a", calling(flight))

    gone, apart = Waiter(flight.run("a", make)), Waiter(flight.run("b", calls_for_a))
    await settle()
    gone.cancel()
    await cleaning_up.wait()
    heir = Waiter(flight.run("a", calling(flight)))
    await settle()
    heir_came.set()
    assert [type(await apart.end()), await heir.end()] == [PurgatoryError, "the end"]


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

    await end_of(flight, outer)
    assert refused(tasks[0].exception())
