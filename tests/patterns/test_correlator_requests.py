"""Requests are registered before they are sent, cancelled with their caller, and fail with their connection."""

import asyncio

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    PurgatoryError,
)
from purgatory_async.patterns import Correlator
from purgatory_async.testing import assert_clean, settle
from tests.patterns.guests import awaiting
from tests.patterns.takers import ByAnyioScope, after, each_way, let_pass
from tests.patterns.waits import LostError

pytestmark = pytest.mark.asyncio


# What is expected.


async def test_a_request_registers_before_sending_without_a_pause(calls, purgatory):
    ran = []
    asyncio.get_running_loop().call_soon(ran.append, "something else")
    reply = calls.expect(7, 5)
    assert [each.keys for each in purgatory.operations()] == [(7,)]
    assert calls.resolve(7, "faster than the sender") is True
    assert await reply == "faster than the sender"
    assert ran == []


async def test_a_taken_id_is_refused_and_the_first_request_goes_on(calls, purgatory):
    reply = calls.expect("id-7", 5)
    with pytest.raises(ValueError, match=r"'id-7'.*already"):
        calls.expect("id-7", 60)
    assert (purgatory.pending, purgatory.timer.pending) == (1, 1)
    assert calls.resolve("id-7", "to the first") is True
    assert await reply == "to the first"
    assert calls.late == 0


async def test_an_id_that_something_else_waits_for_is_refused(calls, purgatory):
    waiting = asyncio.create_task(purgatory.wait(7))
    await settle()
    with pytest.raises(ValueError, match="7"):
        calls.expect(7, 5)
    with pytest.raises(ValueError, match="7"):
        Correlator(purgatory).expect(7, 5)
    assert purgatory.pending == 1
    purgatory.complete_for_key(7, "not a reply")
    assert await waiting == "not a reply"


async def test_in_the_middle_of_a_check_nothing_is_expected_or_replied(calls, purgatory):
    class Meddler(DelayedOperation[None]):
        def try_complete(self):
            for meddle in (
                lambda: calls.expect(8, 5),
                lambda: calls.resolve(7, "pong"),
                lambda: calls.reject(7, LostError()),
            ):
                with pytest.raises(PurgatoryError):
                    meddle()
            refused.append(self)
            return False

    refused = []
    reply = calls.expect(7, 5)
    purgatory.try_complete_else_watch(Meddler(), ["meddled"])
    assert len(refused) == 1
    assert (purgatory.pending, calls.late) == (2, 0)
    calls.resolve(7, "pong")
    assert await reply == "pong"
    purgatory.cancel_for_key("meddled")


async def test_it_says_what_it_is(calls, purgatory):
    reply = calls.expect("id-7", 5)
    assert repr(reply) == "<Reply to 'id-7' expected>"
    calls.resolve("id-7", "pong")
    assert repr(reply) == "<Reply to 'id-7' completed>"
    calls.resolve("id-7", "pong")
    assert repr(calls) == f"<Correlator in {purgatory.name!r} late=1 unknown=0>"


# Given up.


async def test_giving_up_a_request_cancels_its_awaiter_at_once(calls, purgatory):
    reply = calls.expect("id-7", 5)
    task = asyncio.create_task(awaiting(reply))
    await settle()
    assert reply.cancel() is True
    assert reply.cancel() is False
    assert_clean(purgatory)
    for awaitable in (task, reply):
        with pytest.raises(OperationCancelled, match="'id-7'"):
            await awaitable


async def test_giving_up_what_has_its_reply_changes_nothing(calls):
    reply = calls.expect(7, 5)
    calls.resolve(7, "pong")
    assert reply.cancel() is False
    assert await reply == "pong"


@each_way
async def test_cancelled_just_after_the_reply_its_result_is_kept(calls, purgatory, way):
    caller = way()
    reply = calls.expect(7, 5)
    got = []

    async def call():
        got.append(await reply)

    task = asyncio.create_task(caller.run(call()))
    await settle()
    after(5, calls.resolve, 7, "pong")
    after(5 - way.lead, caller.cancel)
    await task
    await let_pass(5)
    assert got == (["pong"] if issubclass(way, ByAnyioScope) else [])
    assert calls.late == 0
    assert_clean(purgatory)
    assert await reply == "pong"


# The connection is lost.


async def test_when_the_connection_is_lost_all_that_is_expected_fails(calls, purgatory):
    lost = LostError()
    replies = [calls.expect(number, 5) for number in range(5)]
    tasks = [asyncio.create_task(awaiting(reply)) for reply in replies[:3]]
    await settle()
    calls.resolve(0, "just in time")
    assert calls.fail_all(lost) == 4
    assert_clean(purgatory)
    assert await tasks[0] == "just in time"
    for awaitable in (*tasks[1:], *replies[1:]):
        with pytest.raises(LostError) as raised:
            await awaitable
        assert raised.value is lost
    assert calls.fail_all(lost) == 0
    assert calls.resolve(1, "late") is False
    assert calls.late == 1


async def test_a_lost_connection_fails_only_its_own_requests(calls, purgatory):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["operation"])
    waiting = asyncio.create_task(purgatory.wait("wait"))
    other_calls = Correlator(purgatory)
    others = other_calls.expect(8, 5)
    calls.expect(7, 5)
    await settle()
    assert calls.fail_all(LostError()) == 1
    assert purgatory.pending == 3
    assert other_calls.resolve(8, "pong") is True
    assert await others == "pong"
    assert operation.outcome is None
    purgatory.cancel_for_key("operation")
    purgatory.complete_for_key("wait", "done")
    assert await waiting == "done"
    assert (calls.late, other_calls.late) == (0, 0)


async def test_a_request_made_on_connection_loss_is_not_failed_again(calls):
    async def persistent():
        try:
            return await calls.expect(7, 5)
        except LostError:
            return await calls.expect(8, 5)

    task = asyncio.create_task(persistent())
    await settle()
    assert calls.fail_all(LostError()) == 1
    await settle()
    assert calls.resolve(8, "pong") is True
    assert await task == "pong"
