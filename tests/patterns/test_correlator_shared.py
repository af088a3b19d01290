"""Several tasks await one reply; replies carry any id; a correlator that is closed expects nothing."""

import asyncio
import traceback

import pytest

from purgatory_async import OperationCancelled
from purgatory_async.patterns import Correlator
from purgatory_async.testing import assert_clean, settle
from tests.patterns.guests import awaiting
from tests.patterns.takers import each_way, let_pass
from tests.patterns.waits import LostError

pytestmark = pytest.mark.asyncio


# Several awaiters.


@each_way
async def test_cancelling_one_awaiter_leaves_the_other_waiting(calls, purgatory, way):
    reply = calls.expect(7, 5)
    caller = way()
    first = asyncio.create_task(caller.run(awaiting(reply)))
    second = asyncio.create_task(awaiting(reply))
    await settle()
    caller.cancel()
    await first
    assert purgatory.pending == 1
    assert calls.resolve(7, "pong") is True
    assert await second == "pong"
    assert calls.late == 0


async def test_cancelling_the_last_awaiter_gives_the_request_up(calls, purgatory):
    reply = calls.expect(7, 5)
    tasks = [asyncio.create_task(awaiting(reply)) for _ in range(3)]
    await settle()
    for task in tasks:
        assert purgatory.pending == 1
        task.cancel()
        await settle()
    assert_clean(purgatory)
    assert calls.resolve(7, "late") is False
    with pytest.raises(OperationCancelled):
        await reply


async def test_awaiters_cancelled_together_give_the_request_up(calls, purgatory):
    reply = calls.expect(7, 5)
    tasks = [asyncio.create_task(awaiting(reply)) for _ in range(3)]
    await settle()
    for task in tasks:
        task.cancel()
    assert calls.resolve(7, "late") is False
    await let_pass(2)
    assert all(task.cancelled() for task in tasks)
    assert_clean(purgatory)


async def test_an_awaiter_after_the_last_was_cancelled_is_too_late(calls):
    reply = calls.expect(7, 5)
    first = asyncio.create_task(awaiting(reply))
    await settle()
    first.cancel()
    second = asyncio.Task(awaiting(reply))  # runs after the cancelled one, also where tasks begin eagerly
    await settle()
    with pytest.raises(OperationCancelled):
        await second


async def test_every_awaiter_gets_the_exception(calls):
    reply = calls.expect(7, 5)
    tasks = [asyncio.create_task(awaiting(reply)) for _ in range(2)]
    await settle()
    assert calls.reject(7, LostError()) is True
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [LostError] * 2


# Any id.


@pytest.mark.parametrize("request_id", [[1], {"id": 1}, ("a", [1]), None])
async def test_an_id_that_was_never_given_counts_as_late(calls, request_id):
    reply = calls.expect(1, 5)
    assert calls.resolve(request_id, "?") is False
    assert calls.reject(request_id, LostError()) is False
    assert calls.late == 2
    assert calls.resolve(1, "pong") is True
    assert await reply == "pong"


async def test_a_reject_without_an_exception_is_refused_first(calls):
    with pytest.raises(TypeError, match="exception must be an exception instance, got 'lost'"):
        calls.reject([1], "lost")
    assert calls.late == 0


# Closed.


async def test_close_fails_what_is_expected_and_what_comes_later(calls, purgatory):
    lost = LostError()
    tasks = [asyncio.create_task(awaiting(calls.expect(number, 5))) for number in range(3)]
    await settle()
    assert calls.close(lost) == 3
    assert_clean(purgatory)
    assert await asyncio.gather(*tasks, return_exceptions=True) == [lost] * 3
    for _ in range(2):
        with pytest.raises(LostError) as raised:
            calls.expect(7, 5)
        assert raised.value is lost
    assert purgatory.pending == 0
    assert calls.resolve(7, "late") is False


async def test_closed_again_it_keeps_its_first_exception(calls):
    assert calls.close(LostError()) == 0
    assert calls.close(ConnectionError()) == 0
    with pytest.raises(LostError):
        calls.expect(7, 5)


async def test_a_caller_that_tries_again_fails_at_once(calls):
    async def persistent():
        try:
            return await calls.expect(7, 5)
        except LostError:
            return await calls.expect(8, 5)

    task = asyncio.create_task(persistent())
    await settle()
    assert calls.close(LostError()) == 1
    with pytest.raises(LostError):
        await task


async def test_the_traceback_does_not_grow_with_each_expect(calls):
    calls.close(lost := LostError())
    depths = []
    for _ in range(3):
        with pytest.raises(LostError):
            calls.expect(7, 5)
        depths.append(len(traceback.extract_tb(lost.__traceback__)))
    assert depths == depths[:1] * 3


async def test_close_leaves_other_correlators_of_the_purgatory(calls, purgatory):
    other = Correlator(purgatory)
    reply = other.expect(7, 5)
    assert calls.close(LostError()) == 0
    assert other.resolve(7, "pong") is True
    assert await reply == "pong"


async def test_close_refuses_what_is_no_exception(calls):
    with pytest.raises(TypeError, match="exception must be an exception instance, got 'lost'"):
        calls.close("lost")
    reply = calls.expect(7, 5)
    calls.resolve(7, "pong")
    assert await reply == "pong"
