"""A second ``__init__`` of a live object is refused and changes nothing: what waits is in lists of others."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryError
from purgatory_async.patterns import (
    Barrier,
    Correlator,
    HandOff,
    Heartbeat,
    Periodic,
    Quorum,
    Retrier,
    Watermark,
)
from purgatory_async.testing import assert_clean, settle
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel

pytestmark = pytest.mark.asyncio


def scheduled(wheel):
    entry = TimerEntry(5)
    wheel.schedule(entry)
    return entry


def cancelled(handle):
    handle.cancel()
    return handle


# Each made with a purgatory, and the arguments of its `__init__`.
KINDS = {
    "operation": (lambda p: DelayedOperation(1), lambda p: (2,)),
    "quorum": (lambda p: Quorum(1), lambda p: (2,)),
    "purgatory": (lambda p: Purgatory(), lambda p: ()),
    "timer": (lambda p: p.timer, lambda p: ()),
    "handle": (lambda p: p.timer.call_later(1, int), lambda p: (p.timer, int, ())),
    "cancelled handle": (lambda p: cancelled(p.timer.call_later(1, int)), lambda p: (p.timer, int, ())),
    "entry": (lambda p: TimerEntry(5), lambda p: (6,)),
    "scheduled entry": (lambda p: scheduled(TimingWheel()), lambda p: (6,)),
    "wheel": (lambda p: TimingWheel(), lambda p: ()),
    "hashed wheel": (lambda p: HashedWheel(), lambda p: ()),
    "portal": (lambda p: p.portal(), lambda p: (p, None)),
    "correlator": (Correlator, lambda p: (p,)),
    "reply": (lambda p: Correlator(p).expect(7, None), lambda p: (8, None)),
    "hand-off": (HandOff, lambda p: (p,)),
    "watermark": (lambda p: Watermark(timer=p.timer), lambda p: ()),
    "heartbeat": (lambda p: Heartbeat(p.timer, send=int, on_dead=int), lambda p: (p.timer,)),
    "periodic": (lambda p: Periodic(p.timer, 1, int), lambda p: (p.timer, 2, int)),
    "retrier": (lambda p: Retrier(p.timer), lambda p: (p.timer,)),
}


@pytest.mark.parametrize(("make", "arguments"), KINDS.values(), ids=KINDS)
async def test_it_is_refused(make, arguments):
    async with Purgatory() as purgatory:
        made = make(purgatory)
        named = {"send": int, "on_dead": int} if isinstance(made, Heartbeat) else {}
        with pytest.raises(PurgatoryError, match="make a new one") as refused:
            made.__init__(*arguments(purgatory), **named)
        assert isinstance(refused.value, RuntimeError)  # as of asyncio's futures


async def test_a_barrier_keeps_its_arrivals():
    async with Purgatory() as purgatory:
        group = Barrier(purgatory, "group", expect=2, timeout=None)
        tasks = [asyncio.create_task(group.arrive("a"))]
        await settle()
        with pytest.raises(PurgatoryError):
            group.__init__(purgatory, "group", expect=2, timeout=None)
        assert await group.arrive("b") is await tasks[0]


async def test_a_pending_operation_stays_where_it_was():
    async with Purgatory() as purgatory:
        operations = [DelayedOperation(60) for _ in range(3)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["k", "other"])
        with pytest.raises(PurgatoryError):
            operations[1].__init__(1)
        assert (operations[1].timeout, operations[1].keys) == (60, ("k", "other"))
        assert purgatory.complete_for_key("k") == 3
        assert_clean(purgatory)


@pytest.mark.parametrize("until", [None, bool])
async def test_a_wait_in_a_list_stays_where_it_was(until):
    async with Purgatory() as purgatory:
        task = asyncio.create_task(purgatory.wait("k", until=until))
        await settle()
        (operation,) = purgatory.operations()
        arguments = (1,) if until is None else (bool, 1)
        with pytest.raises(PurgatoryError):
            operation.__init__(*arguments)
        purgatory.complete_for_key("k", "value")
        assert await task == "value"


async def test_a_failed_operation_is_not_used_again():
    async with Purgatory() as purgatory:
        operation = DelayedOperation(1)
        purgatory.try_complete_else_watch(operation, ["k"])
        operation.fail(OSError("first use"))
        with pytest.raises(PurgatoryError):
            operation.__init__(1)
        with pytest.raises(PurgatoryError, match="cannot watch it again"):
            purgatory.try_complete_else_watch(operation, ["k"])
        with pytest.raises(OSError, match="first use"):
            await operation


EARLY = [
    pytest.param(lambda operation: operation.fail(OSError("early")), id="fail"),
    pytest.param(DelayedOperation.force_complete, id="complete"),
    pytest.param(DelayedOperation.cancel, id="cancel"),
    pytest.param(lambda operation: operation.__await__().send(None), id="await"),
]


@pytest.mark.parametrize("early", EARLY)
async def test_a_call_before_the_first_init_leaves_nothing(early):
    class Early(DelayedOperation[str]):
        def __init__(self) -> None:
            with pytest.raises(AttributeError):
                early(self)
            super().__init__(60)

    purgatory = Purgatory()
    operation = Early()
    purgatory.try_complete_else_watch(operation, ["k"])
    task = asyncio.ensure_future(awaited(operation))
    await settle()
    assert purgatory.close() == [operation]
    assert (await task, operation.exception) == ("closed", None)


async def awaited(operation):
    return await operation


async def test_a_refused_first_init_may_be_repeated():
    operation = DelayedOperation.__new__(DelayedOperation)
    with pytest.raises(TypeError):
        operation.__init__("1")
    operation.__init__(1)
    assert (operation.timeout, operation.outcome) == (1, None)
