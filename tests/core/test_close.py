"""`close` and leaving ``async with``: everything pending ends as closed, and nothing new is taken."""

import asyncio
import gc

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, Timer
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import Recorded


def watch(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


def test_it_ends_all_pending_as_closed_and_returns_them_in_order(purgatory):
    operations = [watch(purgatory, timeout=5), watch(purgatory, "a", "b"), watch(purgatory)]
    assert purgatory.close() == operations
    assert [operation.outcome for operation in operations] == [Outcome.CLOSED] * 3
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == (0, 0, 0, 0)
    assert purgatory.closed


def test_closing_again_does_nothing(purgatory):
    watch(purgatory)
    purgatory.close()
    assert purgatory.close() == []
    assert purgatory.closed


def test_a_closed_purgatory_refuses_and_its_verbs_return_zero(purgatory):
    purgatory.close()
    with pytest.raises(PurgatoryClosed, match="closed"):
        watch(purgatory)
    assert purgatory.check_and_complete("k") == 0
    assert purgatory.complete_for_key("k") == 0
    assert purgatory.fail_for_key("k", KeyError()) == 0
    assert purgatory.cancel_for_key("k") == []


def test_it_runs_no_hooks(purgatory):
    log: list[str] = []
    purgatory.try_complete_else_watch(Recorded(log, timeout=1), ["k"])
    log.clear()
    purgatory.close()
    assert log == []


def test_it_closes_the_timer_that_the_purgatory_made():
    purgatory = Purgatory()
    purgatory.close()
    assert purgatory.timer.closed


def test_it_leaves_a_given_timer_open_for_others(manual_clock):
    timer = Timer(clock=manual_clock)
    one, other = Purgatory("one", timer=timer), Purgatory("other", timer=timer)
    watch(one, timeout=1)
    operation = watch(other, timeout=1)
    handle = timer.call_later(1, print)
    one.close()
    assert not timer.closed
    assert timer.pending == 2
    handle.cancel()
    manual_clock.advance(1)
    assert operation.outcome is Outcome.EXPIRED


def test_what_is_no_timer_is_refused():
    with pytest.raises(TypeError, match="Timer"):
        Purgatory(timer="soon")


@pytest.mark.asyncio
async def test_leaving_async_with_closes_it_also_on_an_error():
    async def leave(error: Exception | None) -> Purgatory:
        async with Purgatory("left") as purgatory:
            watch(purgatory, timeout=60)
            if error is not None:
                raise error
        return purgatory

    left = await leave(None)
    assert left.closed
    assert_clean(left)
    with pytest.raises(KeyError):
        await leave(KeyError("k"))


@pytest.mark.asyncio
async def test_it_wakes_every_waiter(purgatory):
    operation = watch(purgatory)

    async def wait() -> Outcome:
        return await operation

    awaiting, waiting = asyncio.create_task(wait()), asyncio.create_task(purgatory.wait("k"))
    await settle()
    purgatory.close()
    assert await awaiting is Outcome.CLOSED
    with pytest.raises(PurgatoryClosed):
        await waiting


def test_a_hook_may_close_it(purgatory):
    others = []
    operation = Recorded([], then=lambda: others.extend(purgatory.close()))
    purgatory.try_complete_else_watch(operation, ["k"])
    other = watch(purgatory, "l")
    assert purgatory.complete_for_key("k") == 1
    assert others == [other]
    assert operation.outcome is Outcome.COMPLETED
    assert other.outcome is Outcome.CLOSED


def test_one_that_was_never_used_closes_without_a_loop():
    assert Purgatory().close() == []


def test_one_that_is_dropped_with_operations_pending_says_so(manual_clock):
    def drop() -> None:
        watch(Purgatory("forgotten", timer=Timer(clock=manual_clock)))

    def drop_and_collect() -> None:
        drop()
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"forgotten.*pending"):
        drop_and_collect()


@pytest.mark.parametrize("refused", [{"clock": 1}, {"max_pending": 0}])
def test_one_whose_arguments_were_refused_is_dropped_quietly(refused):
    with pytest.raises((TypeError, ValueError)) as error:
        Purgatory(**refused)
    del error
    gc.collect()  # an error in a finalizer fails the test
