"""Many operations, big results, hot keys. Memory and work are counted, never timed."""

import asyncio
import contextvars
import gc
import random
import sys
import weakref

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.testing import ManualClock, assert_clean, settle

MANY = 100_000


def watch(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


class Counted:
    """A key that counts how often it is hashed or compared: what a walk through the lists would cost."""

    asked = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Counted.asked += 1
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        Counted.asked += 1
        return isinstance(other, Counted) and other.number == self.number


class Thing:
    """Something big, whose end can be seen."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "keys"),
    [
        pytest.param("completed", 1_000_000, id="a million"),
        pytest.param("expired", MANY, id="100 000, expired"),
    ],
)
def test_however_many_keys_there_were_no_memory_is_left_behind(end, keys, purgatory, manual_clock):
    def fill_and_empty() -> None:
        for number in range(keys):
            purgatory.try_complete_else_watch(DelayedOperation(60), (number,))
        assert purgatory.keys == keys
        if end == "expired":
            manual_clock.advance(60)
        else:
            for number in range(keys):
                purgatory.complete_for_key(number)
        assert_clean(purgatory)

    watch(purgatory).cancel()
    gc.collect()
    before = sys.getallocatedblocks()
    fill_and_empty()
    gc.collect()
    assert sys.getallocatedblocks() - before < 1_000  # of some four for each key


@pytest.mark.slow
def test_each_of_100_000_on_one_key_leaves_without_a_walk(purgatory):
    operations = [watch(purgatory, Counted(1)) for _ in range(MANY)]
    random.Random(7).shuffle(operations)
    Counted.asked = 0
    for operation in operations:
        operation.cancel()
    assert Counted.asked <= 6 * MANY
    assert_clean(purgatory)


def test_lists_may_vanish_while_they_are_read(purgatory):
    for number in range(100):
        watch(purgatory, number % 10)
    listed = 0
    for operation in purgatory.operations():
        listed += 1
        operation.cancel()
    assert listed == 100
    assert_clean(purgatory)


# D5, D6: the full herd is in test_wakeups.py.


@pytest.mark.parametrize("key", [0, 999])
def test_one_operation_on_1_000_keys_leaves_them_all_at_once(key, purgatory):
    operation = watch(purgatory, *range(1_000), *range(1_000), timeout=60)
    assert (purgatory.pending, purgatory.watched, purgatory.keys) == (1, 1_000, 1_000)
    assert purgatory.complete_for_key(key) == 1
    assert operation.outcome is Outcome.COMPLETED
    assert_clean(purgatory)


@pytest.mark.asyncio
async def test_a_result_is_released_once_its_waiter_has_it(purgatory):
    thing = Thing()
    reference = weakref.ref(thing)
    task = asyncio.create_task(purgatory.wait("k"))
    await settle()
    purgatory.complete_for_key("k", thing)
    result = await task
    assert result is thing
    del thing, result, task
    await asyncio.sleep(0)  # until then asyncio's own callback holds the task
    assert reference() is None


@pytest.mark.asyncio
async def test_the_exception_of_a_wait_is_released_once_caught(purgatory):
    class Problem(Exception):  # noqa: N818 - short-lived
        pass

    problem = Problem()
    reference = weakref.ref(problem)
    task = asyncio.create_task(purgatory.wait("k"))
    await settle()
    purgatory.fail_for_key("k", problem)
    del problem
    await asyncio.wait([task])
    assert task.exception() is reference()
    del task
    gc.collect()  # asyncio's task and the traceback know each other
    assert reference() is None


def test_a_condition_and_what_it_captures_go_with_the_operation(purgatory, manual_clock):
    thing = Thing()
    reference = weakref.ref(thing)

    class Fetch(DelayedOperation[None]):
        def __init__(self, kept: Thing) -> None:
            super().__init__(1)
            self.kept = kept

    purgatory.try_complete_else_watch(Fetch(thing), ["a", "b"])
    del thing
    assert reference() is not None
    manual_clock.advance(1)
    assert reference() is None


@pytest.mark.asyncio
@pytest.mark.parametrize("clock", [pytest.param(None, id="real"), pytest.param(ManualClock, id="manual")])
async def test_a_pending_operation_does_not_keep_its_context_alive(clock):
    """The fault list has hooks run in the submitter's context; the contract gives them none, so none is kept."""
    variable: contextvars.ContextVar[Thing] = contextvars.ContextVar("variable")
    references = []

    def submit(timeout: float) -> None:
        thing = Thing()
        references.append(weakref.ref(thing))
        variable.set(thing)
        watch(purgatory, "k", timeout=timeout)

    async with Purgatory(timer=None if clock is None else Timer(clock=clock())) as purgatory:
        for timeout in (3600, 60, 0):
            contextvars.Context().run(submit, timeout)
        gc.collect()
        assert purgatory.pending == 3
        assert [reference() for reference in references] == [None] * 3
