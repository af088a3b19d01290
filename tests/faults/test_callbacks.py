"""Callbacks that raise, re-enter, act on the purgatory they are called by, or are no plain functions."""

import asyncio

import pytest

from purgatory_async import Outcome
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import Recorded, errors_of_loop

MANY = 100
ERRORS = [ValueError, asyncio.CancelledError, GeneratorExit, StopIteration]


def watch(purgatory, *operations, keys=("k",)):
    for operation in operations:
        purgatory.try_complete_else_watch(operation, keys)


class Troubled(Recorded):
    """Raises in both hooks."""

    def __init__(self, log, error, **options) -> None:
        super().__init__(log, **options)
        self.error = error

    def on_complete(self) -> None:
        super().on_complete()
        raise self.error("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        raise self.error("on_expiration")


@pytest.mark.asyncio
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.EXPIRED])
async def test_hooks_that_raise_stop_no_outcome_and_no_other_hook(outcome, error, purgatory, manual_clock):
    async def wait(operation) -> Outcome:
        return await operation

    reported = errors_of_loop()
    log: list[str] = []
    operations = [
        Troubled(log, error, timeout=1) if number % 2 else Recorded(log, timeout=1) for number in range(MANY)
    ]
    watch(purgatory, *operations)
    tasks = [asyncio.create_task(wait(operation)) for operation in operations]
    await settle()
    log.clear()
    if outcome is Outcome.COMPLETED:
        assert purgatory.complete_for_key("k") == MANY
    else:
        manual_clock.advance(1)
    assert await asyncio.gather(*tasks) == [outcome] * MANY
    hooks = ["op completed"] if outcome is Outcome.COMPLETED else ["op completed", "op expired"]
    assert log == hooks * MANY
    assert [type(context["exception"]) for context in reported] == [error] * (len(hooks) * MANY // 2)


@pytest.mark.asyncio
async def test_a_hook_may_cancel_its_own_waiter(purgatory):
    async def wait() -> Outcome:
        return await operation

    operation = Recorded([], then=lambda: task and task.cancel())
    watch(purgatory, operation)
    task = asyncio.create_task(wait())
    await settle()
    assert purgatory.complete_for_key("k", "result") == 1
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (operation.outcome, operation.result) == (Outcome.COMPLETED, "result")


@pytest.mark.asyncio
async def test_a_walk_continues_when_the_error_handler_raises(purgatory, caplog):
    def handler(loop, context) -> None:
        raise RuntimeError("the handler")

    asyncio.get_running_loop().set_exception_handler(handler)
    log: list[str] = []
    operations = [Troubled(log, ValueError) for _ in range(1_000)]
    watch(purgatory, *operations)
    log.clear()
    with caplog.at_level("CRITICAL", logger="asyncio"):
        assert purgatory.complete_for_key("k") == 1_000
    assert log == ["op completed"] * 1_000
    assert_clean(purgatory)
