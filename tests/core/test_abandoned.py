"""`DelayedOperation.abandoned`: every task that awaited it has been cancelled, though none has run since."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, Outcome
from purgatory_async.testing import settle
from tests.patterns.waiters import Waiter, each_way


async def awaiting(operation) -> Outcome:
    return await operation


@pytest.fixture
def operation(purgatory):
    """Watched, and taken out at the end."""
    operation: DelayedOperation[str] = DelayedOperation(60)
    purgatory.try_complete_else_watch(operation, ["k"])
    yield operation
    operation.cancel()


async def awaited_by(operation, number, way=Waiter) -> list[Waiter]:
    waiters = [way(awaiting(operation)) for _ in range(number)]
    await settle()
    return waiters


def test_an_operation_that_was_never_watched_is_not_abandoned():
    assert DelayedOperation().abandoned is False


def test_an_operation_without_awaiters_is_not_abandoned(operation):
    assert operation.abandoned is False


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_while_its_tasks_wait_it_is_false(number, operation):
    waiters = await awaited_by(operation, number)
    assert operation.abandoned is False
    operation.cancel()
    assert [await way.end() for way in waiters] == [Outcome.CANCELLED] * number


@pytest.mark.asyncio
@each_way
async def test_it_is_true_at_once_when_its_only_task_is_cancelled(way, operation):
    (only,) = await awaited_by(operation, 1, way)
    seen: list[bool] = []
    only.cancel_before(lambda: seen.append(operation.abandoned))
    assert await only.end() == "cancelled"
    assert seen == [True]
    assert operation.outcome is None


@pytest.mark.asyncio
async def test_it_is_false_again_when_the_cancelled_task_has_run(operation):
    (only,) = await awaited_by(operation, 1)
    only.cancel()
    assert operation.abandoned
    await settle()
    assert operation.abandoned is False


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [2, 3])
async def test_it_is_false_again_when_all_the_cancelled_tasks_have_run(number, operation):
    waiters = await awaited_by(operation, number)
    for way in waiters:
        way.cancel()
    assert operation.abandoned
    await settle()
    assert operation.abandoned is False


@pytest.mark.asyncio
@pytest.mark.parametrize("which", [0, 1])
async def test_of_two_that_wait_one_is_enough_to_keep_it(which, operation):
    waiters = await awaited_by(operation, 2)
    waiters[which].cancel()
    assert operation.abandoned is False
    await settle()
    assert operation.abandoned is False
    waiters[1 - which].cancel()
    assert operation.abandoned is True
    await settle()


@pytest.mark.asyncio
async def test_all_have_to_be_cancelled(operation):
    waiters = await awaited_by(operation, 3)
    seen = []
    for way in waiters:
        way.cancel()
        seen.append(operation.abandoned)
    assert seen == [False, False, True]
    await settle()


@pytest.mark.asyncio
async def test_a_new_awaiter_after_the_cancelled_one_ends_abandonment(operation):
    (first,) = await awaited_by(operation, 1)
    second = Waiter(awaiting(operation))
    first.cancel()
    await settle()
    assert operation.abandoned is False
    second.cancel()
    assert operation.abandoned is True
    await settle()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda operation, clock: operation.force_complete(), Outcome.COMPLETED, id="completed"),
        pytest.param(lambda operation, clock: operation.cancel(), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda operation, clock: operation.fail(KeyError()), Outcome.FAILED, id="failed"),
        pytest.param(lambda operation, clock: clock.advance(60), Outcome.EXPIRED, id="expired"),
    ],
)
async def test_it_is_false_after_the_end_whichever_task_was_cancelled(
    number, end, outcome, operation, manual_clock
):
    waiters = await awaited_by(operation, number)
    for way in waiters:
        way.cancel()
    end(operation, manual_clock)
    assert operation.outcome is outcome  # an ordinary operation still ends: it may be more than a wait
    assert operation.abandoned is False
    await settle()
    assert operation.abandoned is False
    assert [await way.end() for way in waiters] == ["cancelled"] * number


@pytest.mark.asyncio
async def test_it_is_false_for_a_task_cancelled_as_it_ended(operation):
    (only,) = await awaited_by(operation, 1)
    seen: list[bool] = []
    only.cancel_after(operation.force_complete)
    seen.append(operation.abandoned)
    await settle()
    assert seen == [False]
    assert await only.end() == "cancelled"


@pytest.mark.asyncio
async def test_a_check_that_asks_takes_nothing_for_a_cancelled_waiter(purgatory):
    class Taker(DelayedOperation[str]):
        def try_complete(self) -> bool:
            return bool(things) and not self.abandoned and self.force_complete(things.pop())

    things: list[str] = []
    takers = [Taker(), Taker()]
    for taker in takers:
        purgatory.try_complete_else_watch(taker, ["k"])
    tasks = [asyncio.create_task(awaiting(taker)) for taker in takers]
    await settle()
    tasks[0].cancel()
    things.append("thing")
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert [taker.result for taker in takers] == [None, "thing"]
    await settle()
    takers[0].cancel()
