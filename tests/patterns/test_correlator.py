"""A reply ends the request that expects it, once; any other is late and leaves nothing in the table."""

import asyncio
import re
from math import inf
from traceback import walk_tb

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
)
from purgatory_async.testing import assert_clean, settle
from tests.patterns.guests import awaiting
from tests.patterns.waits import LostError

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


async def test_a_reply_may_come_before_anybody_awaits_it(calls, purgatory):
    reply = calls.expect(7, 5)
    assert calls.resolve(7, "pong") is True
    assert_clean(purgatory)
    assert await reply == "pong"


async def test_replies_may_come_in_any_order(calls):
    tasks = [await started(calls.expect(number, 5)) for number in range(100)]
    for number in reversed(range(100)):
        assert calls.resolve(number, f"reply to {number}")
    assert await asyncio.gather(*tasks) == [f"reply to {number}" for number in range(100)]
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
    for end in (calls.fail_all, lambda it: calls.reject(7, it), lambda it: calls.reject("unknown", it)):
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


async def test_replies_can_be_gathered(calls):
    gathered = asyncio.gather(calls.expect(7, 5), calls.expect(8, 5))
    await settle()
    calls.resolve(8, "b")
    calls.resolve(7, "a")
    assert await gathered == ["a", "b"]


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


@pytest.mark.parametrize("timeout", [0, -1])
async def test_without_time_a_reply_is_in_time_within_the_pass(calls, purgatory, timeout):
    in_time, too_late = calls.expect(7, timeout), calls.expect(8, timeout)
    assert calls.resolve(7, "at once") is True
    await settle()
    assert_clean(purgatory)
    assert await in_time == "at once"
    with pytest.raises(OperationExpired):
        await too_late


@pytest.mark.parametrize("timeout", [None, inf])
async def test_without_a_timeout_a_reply_may_come_in_years(calls, purgatory, manual_clock, timeout):
    task = await started(calls.expect(7, timeout))
    assert purgatory.timer.pending == 0
    manual_clock.advance(1e9)
    calls.resolve(7, "at last")
    assert await task == "at last"


# Late replies.


async def give_up(calls, reply, purgatory, clock):
    reply.cancel()


async def expire(calls, reply, purgatory, clock):
    clock.advance(5)


async def answer(calls, reply, purgatory, clock):
    calls.resolve(7, "the first")


async def refuse(calls, reply, purgatory, clock):
    calls.reject(7, LostError())


async def lose_the_connection(calls, reply, purgatory, clock):
    calls.fail_all(LostError())


async def cancel_for_key(calls, reply, purgatory, clock):
    purgatory.cancel_for_key(7)


async def close(calls, reply, purgatory, clock):
    purgatory.close()


async def cancel_the_caller(calls, reply, purgatory, clock):
    task = await started(reply)
    task.cancel()
    await settle()
    assert task.cancelled()


async def cancel_the_caller_in_this_very_pass(calls, reply, purgatory, clock):
    task = await started(reply)
    task.cancel()  # the task itself does not know yet


ENDS = (
    *(give_up, expire, answer, refuse, lose_the_connection, cancel_for_key),
    *(cancel_the_caller, cancel_the_caller_in_this_very_pass),
)
each_end = pytest.mark.parametrize("end", [*ENDS, close], ids=lambda end: end.__name__)
each_end_but_closing = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)


@each_end
async def test_an_unexpected_reply_is_counted_and_no_error(calls, purgatory, manual_clock, end):
    reply = calls.expect(7, 5)
    await end(calls, reply, purgatory, manual_clock)
    assert calls.late == 0
    assert calls.resolve(7, "late") is False
    assert calls.late == 1
    assert_clean(purgatory)
    assert calls.reject(7, LostError()) is False
    assert calls.late == 2
    await settle()
    assert_clean(purgatory)


@each_end
async def test_an_unexpected_rejection_is_counted_and_no_error(calls, purgatory, manual_clock, end):
    reply = calls.expect(7, 5)
    await end(calls, reply, purgatory, manual_clock)
    assert calls.reject(7, LostError()) is False
    assert calls.late == 1
    assert_clean(purgatory)


@each_end_but_closing
async def test_an_id_is_free_as_soon_as_its_request_has_ended(calls, purgatory, manual_clock, end):
    reply = calls.expect(7, 5)
    await end(calls, reply, purgatory, manual_clock)
    again = calls.expect(7, 5)
    assert calls.resolve(7, "to the second") is True
    assert await again == "to the second"
    await settle()
    assert calls.late == 0
    assert_clean(purgatory)


async def test_a_reply_to_an_unknown_id_is_late(calls):
    calls.expect(7, 5)
    for number, unknown in enumerate([8, "7", None, (7,)], 1):
        assert calls.resolve(unknown, "?") is False
        assert calls.late == number
    assert calls.resolve(7, "pong") is True
    assert calls.late == 4
