"""A StopIteration of the caller's code is an error in whatever awaits, and never its end (PEP 479)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.patterns import Correlator, Watermark
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

Case = tuple[Awaitable[object], Callable[[], object]]  # what is awaited, and what fails it


def first_check(purgatory, stop) -> Case:
    return purgatory.wait("k", until=raising(stop)), int


def later_check(purgatory, stop) -> Case:
    rows = iter([None])
    return purgatory.wait("k", until=lambda: next(rows)), lambda: purgatory.check_and_complete("k")


def wait(purgatory, stop) -> Case:
    return purgatory.wait("k"), lambda: purgatory.fail_for_key("k", stop)


def run(purgatory, stop) -> Case:
    return purgatory.run(DelayedOperation(), ["k"]), lambda: purgatory.fail_for_key("k", stop)


def operation(purgatory, stop) -> Case:
    watched = DelayedOperation()
    purgatory.try_complete_else_watch(watched, ["k"])
    return watched, lambda: watched.fail(stop)


def reply(purgatory, stop) -> Case:
    calls = Correlator(purgatory)
    return calls.expect("k", None), lambda: calls.close(stop)


def watermark(purgatory, stop) -> Case:
    high = Watermark(timer=purgatory.timer)
    return high.reach(1), lambda: high.fail_all(stop)


CASES = [first_check, later_check, wait, run, operation, reply, watermark]


def raising(error):
    def fails() -> None:
        raise error

    return fails


async def awaiting(awaited):
    return await awaited


@pytest.mark.parametrize("own", [True, False], ids=["its own coroutine", "awaited"])
@pytest.mark.parametrize("case", CASES)
async def test_it_comes_out_as_the_cause_of_a_runtime_error(case, own):
    async with Purgatory() as purgatory:
        awaited, fail = case(purgatory, StopIteration("mine"))
        task = asyncio.create_task(awaited if own and asyncio.iscoroutine(awaited) else awaiting(awaited))
        await settle()
        fail()
        await settle()
        assert task.done()
        error = task.exception()
        assert isinstance(error, RuntimeError)
        assert "raised StopIteration" in str(error)
        assert isinstance(error.__cause__, StopIteration)
        assert purgatory.pending == 0
