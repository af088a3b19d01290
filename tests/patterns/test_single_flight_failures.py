"""What a call raises reaches each caller as a copy, or the loop's exception handler; and no cycle is left behind."""

import asyncio
import gc
import traceback
import weakref
from contextlib import suppress
from functools import partial

import pytest

from purgatory_async import PurgatoryError
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import settle
from tests.core.recording import errors_of_loop
from tests.loop.worlds import by_reference_counts_alone
from tests.patterns.flights import Service, callers
from tests.patterns.waiters import Waiter, ends

pytestmark = pytest.mark.asyncio


@pytest.fixture
def flight(purgatory):
    return SingleFlight(purgatory)


@pytest.fixture
def service():
    return Service()


class UncopyableError(Exception):
    def __init__(self, *, code):
        super().__init__(f"error {code}")
        self.code = code


class ChangingError(Exception):
    def __init__(self, code):
        super().__init__(f"error {code}")


async def raised_by(make, flight, times=2):
    """What concurrent callers get."""
    several = [Waiter(flight.run("k", make)) for _ in range(times)]
    return await ends(several)


def functions_of(exception):
    return [frame.name for frame in traceback.extract_tb(exception.__traceback__)]


async def test_each_caller_gets_a_copy_with_its_own_traceback(flight):
    async def fail():
        await asyncio.sleep(0)
        try:
            {}["row"]
        except KeyError as error:
            failure = LookupError("no page", 404)
            failure.url = "/"
            failure.add_note("a note")
            raise failure from error

    first, second = await raised_by(fail, flight)
    assert first is not second
    assert first.__traceback__ is not second.__traceback__
    for copied in (first, second):
        assert (type(copied), copied.args, copied.url) == (LookupError, ("no page", 404), "/")
        assert type(copied.__cause__) is KeyError
        assert copied.__suppress_context__ is True
        assert functions_of(copied)[-1] == "fail"
        assert functions_of(copied).count("run") == 1
    first.add_note("of the first alone")
    assert (first.__notes__, second.__notes__) == (["a note", "of the first alone"], ["a note"])


@pytest.mark.parametrize("hidden", [True, False])
async def test_the_context_of_an_exception_is_copied_too(flight, hidden):
    async def fail():
        try:
            {}["row"]
        except KeyError:
            failure = LookupError()
            failure.__suppress_context__ = hidden  # as `from None` does
            raise failure  # noqa: B904 - that is what is tested

    (copied,) = await raised_by(fail, flight, 1)
    assert (type(copied.__context__), copied.__cause__) == (KeyError, None)
    assert copied.__suppress_context__ is hidden


@pytest.mark.parametrize("failure", [UncopyableError(code=5), ChangingError(5)], ids=repr)
async def test_one_that_cannot_be_copied_is_raised_itself(flight, failure):
    async def fail():
        raise failure

    async def caller():
        with pytest.raises(type(failure)) as raised:
            await flight.run("k", fail)
        assert raised.value is failure
        return functions_of(failure)

    frames = await asyncio.gather(*[caller() for _ in range(3)])
    assert frames[0] == frames[2]
    assert str(failure) == "error 5"
    failure.__traceback__ = None  # this one outlives its test


async def test_a_plain_function_that_raises_fails_the_call(flight):
    (failed,) = await raised_by(lambda: 1 / 0, flight, 1)
    assert type(failed) is ZeroDivisionError


# Without callers.


async def test_what_no_caller_awaits_goes_to_the_loops_handler(purgatory, service):
    reported = errors_of_loop()
    flight = SingleFlight(purgatory, when_left="finish")
    (one,) = await callers(flight, service.fetch, 1)
    one.cancel()
    await settle()
    failure = ConnectionError("the page is away")
    service.answer(failure)
    await settle()
    (report,) = reported
    assert report == {
        "message": "<flight of 'k'> raised, and all its callers have left",
        "exception": failure,
    }


async def test_what_one_caller_has_got_is_not_reported(purgatory, service):
    reported = errors_of_loop()
    flight = SingleFlight(purgatory, when_left="finish")
    stays, goes = await callers(flight, service.fetch, 2)
    service.answer(ConnectionError())
    await asyncio.sleep(0)
    goes.cancel()
    assert type(await stays.end()) is ConnectionError
    await settle()
    assert reported == []


@pytest.mark.parametrize("passes", range(4))
async def test_a_failure_as_the_last_caller_leaves_is_not_lost(flight, service, passes):
    reported = errors_of_loop()
    several = await callers(flight, service.fetch, 2)
    service.answer(ConnectionError())
    for _ in range(passes):
        await asyncio.sleep(0)
    for waiter in several:
        waiter.cancel()
    await ends(several)
    await settle()
    got = [waiter.got for waiter in several if waiter.got != "cancelled"]
    assert len(reported) == (not got)
    assert len(flight) == 0


async def test_what_a_clean_up_raises_is_reported(flight):
    reported = errors_of_loop()

    async def make():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise ConnectionError

    (one,) = await callers(flight, make, 1)
    one.cancel()
    await settle()
    assert [type(report["exception"]) for report in reported] == [ConnectionError]


# Garbage.


class Page:
    """A result, or what an exception refers to."""


async def return_it(page):
    return page


async def raise_it(page):
    raise LookupError(page)


async def raise_it_uncopyable(page):
    raise UncopyableError(code=page)


async def call_itself(page, flight):
    await flight.run("k", lambda: return_it(page))


@pytest.mark.parametrize("make", [return_it, raise_it, raise_it_uncopyable, call_itself])
async def test_nothing_is_left_to_the_collector(flight, make):
    arguments = (flight,) if make is call_itself else ()

    async def a_step_later(page):  # what an eager task raises in its first step, asyncio keeps in a cycle
        await asyncio.sleep(0)
        return await make(page, *arguments)

    async def caller(page):
        with suppress(LookupError, UncopyableError, PurgatoryError):
            await flight.run("k", partial(a_step_later, page))

    await settle()
    with by_reference_counts_alone():
        page = Page()
        gone = weakref.ref(page)
        tasks = [asyncio.create_task(caller(page)) for _ in range(2)]
        del page
        while tasks:
            await tasks.pop()
        await asyncio.sleep(0)
        assert gone() is None
        assert gc.collect() == 0


@pytest.mark.parametrize("when_left", ["cancel", "finish"])
async def test_calls_that_were_left_leave_nothing_either(purgatory, when_left):
    flight, service = SingleFlight(purgatory, when_left=when_left), Service(clean_up=3)
    await settle()
    with by_reference_counts_alone():
        for _ in range(2):
            tasks = [asyncio.create_task(flight.run("k", service.fetch)) for _ in range(2)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()
        del task
        if when_left == "finish":
            service.answer(None)
        service.answers.clear()
        await settle()
        assert len(flight) == 0
        assert gc.collect() == 0
