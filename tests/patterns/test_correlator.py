"""A reply ends the request that expects it, once; any other is late, and a request leaves nothing when it ends."""

import asyncio
import re
import traceback
from traceback import walk_tb
from types import SimpleNamespace

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
)
from purgatory_async.patterns import Correlator
from purgatory_async.testing import assert_clean, settle
from tests.patterns.table import LostError
from tests.patterns.waiters import after, awaiting, each_way, let_pass, waiting

pytestmark = pytest.mark.asyncio


async def started(reply):
    """A task that awaits a reply, and has begun to."""
    task = asyncio.create_task(awaiting(reply))
    await settle()
    return task


# Replies that come in time.


async def test_a_reply_finds_who_awaits_it(calls, purgatory):
    task = await started(calls.expect(7, 5))
    assert calls.resolve(7, "pong") is True
    assert_clean(purgatory)
    assert await task == "pong"
    assert calls.late == 0


@pytest.mark.parametrize("value", [None, 0, "", (), False, NotImplemented, LostError()], ids=repr)
async def test_a_reply_may_be_anything(calls, value):
    reply = calls.expect(7, 5)
    assert calls.resolve(7, value) is True
    assert await reply is value
    task = await started(calls.expect(7, 5))
    assert calls.resolve(7, value) is True
    assert await task is value


@pytest.mark.parametrize("request_id", [0, "", (), b"\0", 1.5, ("host", 7), frozenset()], ids=repr)
async def test_an_id_may_be_any_hashable(calls, request_id):
    reply = calls.expect(request_id, 5)
    assert calls.resolve(request_id, "pong") is True
    assert await reply == "pong"


async def test_a_rejected_request_raises_what_it_was_rejected_with(calls, purgatory):
    refusal = LostError("no such method")
    task = await started(calls.expect(7, 5))
    early = calls.expect(8, 5)
    assert calls.reject(7, refusal) is True
    assert calls.reject(8, refusal) is True
    assert_clean(purgatory)
    for awaitable in (task, early, early):
        with pytest.raises(LostError) as raised:
            await awaitable
        assert raised.value is refusal
    assert calls.late == 0


async def test_an_unawaited_rejection_is_no_error(calls):
    calls.expect(7, 5)
    assert calls.reject(7, LostError()) is True


@pytest.mark.parametrize("exception", [LostError, None, "lost"])
async def test_what_cannot_be_raised_is_refused_and_ends_nothing(calls, purgatory, exception):
    with pytest.raises(TypeError, match="exception instance"):
        calls.fail_all(exception)  # no caller is left to receive it
    reply = calls.expect(7, 5)
    for end in (
        calls.fail_all,
        calls.close,
        lambda it: calls.reject(7, it),
        lambda it: calls.reject("unknown", it),
        lambda it: calls.reject([1], it),
    ):
        with pytest.raises(TypeError, match=f"exception instance, got {re.escape(repr(exception))}"):
            end(exception)
    assert (purgatory.pending, calls.late) == (1, 0)
    calls.resolve(7, "pong")
    assert await reply == "pong"


# Awaiting.


async def test_awaited_again_a_reply_answers_the_same(calls, purgatory, manual_clock):
    ends = {
        "value": lambda number: calls.resolve(number, "value"),
        LostError: lambda number: calls.reject(number, LostError()),
        OperationCancelled: purgatory.cancel_for_key,
        OperationExpired: lambda _: manual_clock.advance(5),
        PurgatoryClosed: lambda _: purgatory.close(),
    }
    for number, (expected, end) in enumerate(ends.items()):
        reply = calls.expect(number, 5)
        end(number)
        for _ in range(3):
            if expected == "value":
                assert await reply == "value"
            else:
                with pytest.raises(expected):
                    await reply


async def test_several_may_await_one_reply(calls):
    reply = calls.expect(7, 5)
    tasks = [await started(reply) for _ in range(3)]
    calls.resolve(7, "pong")
    assert await asyncio.gather(*tasks, reply) == ["pong"] * 4


async def test_an_exception_shared_by_many_does_not_grow_with_them(calls):
    tasks = [await started(calls.expect(number, 5)) for number in range(50)]
    early = [calls.expect(number, 5) for number in range(50, 100)]
    with pytest.raises(ZeroDivisionError) as caught:
        divmod(1, 0)  # an exception with a traceback of its own
    lost = caught.value
    assert calls.fail_all(lost) == 100
    depths = set()
    for awaitable in (*tasks, *early, *early):
        with pytest.raises(ZeroDivisionError) as raised:
            await awaitable
        assert raised.value is lost
        depths.add(len(list(walk_tb(lost.__traceback__))))
    assert max(depths) < 10
    assert lost.__context__ is None


# In a with block.


@pytest.mark.parametrize("raised", [LostError, KeyboardInterrupt, asyncio.CancelledError])
async def test_a_with_block_gives_up_a_request_that_failed_to_send(calls, purgatory, raised):
    with pytest.raises(raised), calls.expect(7, 5) as reply:
        raise raised
    assert_clean(purgatory)
    assert calls.resolve(7, "late") is False
    with pytest.raises(OperationCancelled):
        await reply


async def test_a_with_block_left_without_a_reply_gives_up_its_request(calls, purgatory):
    with calls.expect(7, 5):
        assert purgatory.pending == 1
    assert_clean(purgatory)
    assert calls.resolve(7, "late") is False


async def test_in_a_with_block_the_reply_is_had_as_anywhere(calls):
    with calls.expect(7, 5) as reply:
        assert calls.resolve(7, "pong") is True
        assert await reply == "pong"
    assert await reply == "pong"
    with calls.expect(7, 5) as reply:
        calls.resolve(7, "before the end")
    assert await reply == "before the end"
    assert calls.late == 0


# Time.


async def test_an_unanswered_request_expires_and_names_its_id(calls, purgatory, manual_clock):
    task = await started(calls.expect("id-7", 2.5))
    unawaited = calls.expect(8, 2.5)
    manual_clock.advance(2.499)
    assert purgatory.pending == 2
    manual_clock.advance(0.001)
    assert_clean(purgatory)
    with pytest.raises(OperationExpired, match=r"'id-7'.*2\.5 s"):
        await task
    with pytest.raises(TimeoutError):
        await unawaited


async def test_the_time_runs_from_when_the_reply_was_expected(calls, manual_clock):
    reply = calls.expect(7, 5)
    manual_clock.advance(4)
    task = await started(reply)
    manual_clock.advance(1)
    with pytest.raises(OperationExpired):
        await task


# Late replies.

ENDS = {
    "given up": lambda run: run.reply.cancel(),
    "expired": lambda run: run.clock.advance(5),
    "answered": lambda run: run.calls.resolve(7, "the first"),
    "refused": lambda run: run.calls.reject(7, LostError()),
    "connection lost": lambda run: run.calls.fail_all(LostError()),
    "cancelled for its key": lambda run: run.purgatory.cancel_for_key(7),
    "caller cancelled": lambda run: run.waiters[0].cancel(),
    "closed": lambda run: run.purgatory.close(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "not awaited"])
@pytest.mark.parametrize("settled", [True, False], ids=["before", "in this very pass"])
async def test_a_reply_after_the_end_is_late_and_its_id_is_free(
    calls, purgatory, manual_clock, end, *, awaited, settled
):
    if not awaited and end is ENDS["caller cancelled"]:
        pytest.skip("there is none")
    reply = calls.expect(7, 5)
    waiters = await waiting(awaiting(reply)) if awaited else []
    end(SimpleNamespace(calls=calls, reply=reply, purgatory=purgatory, clock=manual_clock, waiters=waiters))
    if settled:
        await settle()
    assert calls.late == 0
    assert calls.resolve(7, "late") is False
    assert calls.reject(7, LostError()) is False
    assert calls.late == 2
    await settle()
    assert_clean(purgatory)
    if not purgatory.closed:
        again = calls.expect(7, 5)
        assert calls.resolve(7, "to the second") is True
        assert await again == "to the second"
        assert calls.late == 2


async def test_an_id_is_free_in_the_pass_that_cancels_its_caller(calls, purgatory):
    (waiter,) = await waiting(awaiting(calls.expect(7, 5)))
    waiter.cancel()
    again = calls.expect(7, 5)
    assert calls.resolve(7, "to the second") is True
    assert await again == "to the second"
    await settle()
    assert calls.late == 0
    assert_clean(purgatory)


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


@each_way
async def test_cancelled_just_after_the_reply_its_result_is_kept(calls, purgatory, way):
    reply = calls.expect(7, 5)
    (caller,) = await waiting(awaiting(reply), way=way)
    after(5, calls.resolve, 7, "pong")
    after(5 - way.lead, caller.cancel)
    await let_pass(10)
    assert caller.got == ("cancelled" if way.reached_late else "pong")
    assert calls.late == 0
    assert_clean(purgatory)
    assert await reply == "pong"


# The connection is lost.


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


# Several awaiters.


@each_way
async def test_cancelling_one_awaiter_leaves_the_other_waiting(calls, purgatory, way):
    reply = calls.expect(7, 5)
    (first,) = await waiting(awaiting(reply), way=way)
    second = await started(reply)
    first.cancel()
    assert await first.end() == "cancelled"
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


# Any id.


@pytest.mark.parametrize("request_id", [[1], {"id": 1}, ("a", [1]), None])
async def test_an_id_that_was_never_given_counts_as_late(calls, request_id):
    reply = calls.expect(1, 5)
    assert calls.resolve(request_id, "?") is False
    assert calls.reject(request_id, LostError()) is False
    assert calls.late == 2
    assert calls.resolve(1, "pong") is True
    assert await reply == "pong"


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


async def test_the_traceback_does_not_grow_with_each_expect(calls):
    calls.close(lost := LostError())
    depths = []
    for _ in range(3):
        with pytest.raises(LostError):
            calls.expect(7, 5)
        depths.append(len(traceback.extract_tb(lost.__traceback__)))
    assert depths == depths[:1] * 3
