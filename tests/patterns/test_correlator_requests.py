"""Requests are registered before they are sent, cancelled with their caller, and fail with their connection."""

import asyncio
from math import inf, nan

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import Correlator
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.patterns.takers import WAYS, ByAnyioScope, after, let_pass
from tests.purgatory.recording import errors_of_loop

pytestmark = pytest.mark.asyncio
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


class LostError(Exception):
    """The connection is lost."""


@pytest.fixture
def calls(purgatory):
    return Correlator(purgatory)


async def awaiting(reply):
    return await reply


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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, 5), ValueError, "request_id must not be None"),
        (([7], 5), TypeError, "unhashable"),
        ((7, nan), ValueError, "timeout.*nan"),
        ((7, -inf), ValueError, "timeout.*-inf"),
        ((7, 3_155_760_001), ValueError, "timeout.*3155760001"),
        ((7, True), TypeError, "timeout.*bool"),
        ((7, "5"), TypeError, "timeout.*str"),
    ],
)
async def test_a_bad_request_is_refused_and_leaves_nothing(calls, purgatory, arguments, error, message):
    with pytest.raises(error, match=message):
        calls.expect(*arguments)
    assert_clean(purgatory)
    reply = calls.expect(7, 5)
    assert calls.resolve(7, "pong") is True
    assert await reply == "pong"


async def test_a_full_purgatory_expects_no_more(manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock), max_pending=1) as purgatory:
        calls = Correlator(purgatory)
        calls.expect(7, 5)
        with pytest.raises(PurgatoryFull, match="1"):
            calls.expect(8, 5)
        assert calls.resolve(8, "?") is False
        assert calls.resolve(7, "pong") is True
        calls.expect(8, 5)


async def test_a_closed_or_draining_purgatory_expects_nothing(calls, purgatory):
    reply = calls.expect(7, 5)
    drained = asyncio.create_task(purgatory.drain())
    await settle()
    with pytest.raises(PurgatoryClosed):
        calls.expect(8, 5)
    calls.resolve(7, "pong")
    assert await drained is True
    assert await reply == "pong"
    purgatory.close()
    with pytest.raises(PurgatoryClosed):
        calls.expect(8, 5)
    assert_clean(purgatory)


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


@pytest.mark.parametrize("purgatory", [None, "calls", Purgatory])
async def test_what_is_no_purgatory_is_refused(purgatory):
    with pytest.raises(TypeError, match="purgatory must be a Purgatory, got"):
        Correlator(purgatory)


async def test_it_says_what_it_is(calls, purgatory):
    reply = calls.expect("id-7", 5)
    assert repr(reply) == "<Reply to 'id-7' expected>"
    calls.resolve("id-7", "pong")
    assert repr(reply) == "<Reply to 'id-7' completed>"
    calls.resolve("id-7", "pong")
    assert repr(calls) == f"<Correlator in {purgatory.name!r} late=1>"


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
async def test_who_is_cancelled_gives_the_request_up(calls, purgatory, way):
    caller = way()
    others = calls.expect(8, 5)
    task = asyncio.create_task(caller.run(awaiting(calls.expect(7, 5))))
    await settle()
    caller.cancel()
    await task
    assert [each.keys for each in purgatory.operations()] == [(8,)]
    assert purgatory.timer.pending == 1
    assert calls.resolve(7, "late") is False
    assert calls.resolve(8, "pong") is True
    assert await others == "pong"


@each_way
async def test_cancelled_a_moment_before_the_reply_it_is_late(calls, purgatory, way):
    caller = way()
    task = asyncio.create_task(caller.run(awaiting(calls.expect(7, 5))))
    await settle()
    after(5 - way.lead, caller.cancel)
    after(5, calls.resolve, 7, "late")
    await task
    await let_pass(5)
    assert calls.late == 1
    assert_clean(purgatory)


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


async def test_who_has_just_been_cancelled_is_not_counted(calls, purgatory):
    tasks = [asyncio.create_task(awaiting(calls.expect(number, 5))) for number in range(3)]
    await settle()
    tasks[1].cancel()
    assert calls.fail_all(LostError()) == 2
    assert_clean(purgatory)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [LostError, asyncio.CancelledError, LostError]


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


# Cancelled at every point where it can be.

ENDS = {
    "resolved": lambda scene: scene.calls.resolve(7, "pong"),
    "rejected": lambda scene: scene.calls.reject(7, LostError()),
    "lost": lambda scene: scene.calls.fail_all(LostError()),
    "expired": lambda scene: scene.clock.advance(5),
    "given up": lambda scene: scene.reply.cancel(),
    "closed": lambda scene: scene.purgatory.close(),
}
OUTCOMES = {
    "resolved": Outcome.COMPLETED,
    "rejected": Outcome.FAILED,
    "lost": Outcome.FAILED,
    "expired": Outcome.EXPIRED,
    "given up": Outcome.CANCELLED,
    "closed": Outcome.CLOSED,
}


class Scene:
    """One request, and what ends it some passes from now; a second one beside it, and a call after it."""

    def __init__(self, end, passes):
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.calls = Correlator(self.purgatory)
        self.reply = self.calls.expect(7, 5)
        (self.request,) = self.purgatory.operations()
        self.end = end
        after(passes, self.happen)

    def happen(self):
        self.was_pending = self.request.outcome is None
        self.answer = ENDS[self.end](self)

    async def call(self):
        try:
            await self.reply
        except (LostError, OperationExpired, OperationCancelled, PurgatoryClosed):
            pass
        finally:
            assert list(self.purgatory.operations()) == []
            assert self.purgatory.timer.pending == 0

    def check(self):
        assert self.request.outcome in (OUTCOMES[self.end], Outcome.CANCELLED)
        in_time = self.request.outcome is Outcome.COMPLETED or self.request.outcome is Outcome.FAILED
        if self.end in ("resolved", "rejected"):
            assert self.answer is in_time
            assert self.calls.late == (not in_time)
        else:
            assert self.calls.late == 0
        assert_clean(self.purgatory)
        self.purgatory.close()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("passes", range(1, 6))
async def test_cancelled_anywhere_a_caller_leaks_and_swallows_nothing(end, passes):
    async def scenario():
        scenes.append(Scene(end, passes))
        await scenes[-1].call()

    reports = errors_of_loop()
    scenes = []
    points = await cancel_sweep(scenario)
    assert points == 1
    assert len(scenes) == 1 + 2 * points
    await let_pass(10)
    for scene in scenes:
        scene.check()
    assert reports == []
