"""`drain`: nothing new from now on, and wait until nothing is pending."""

import asyncio
from math import nan

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryClosed, Timer
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import Recorded

pytestmark = pytest.mark.asyncio


def watch(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


async def draining(purgatory, timeout=None):
    task = asyncio.create_task(purgatory.drain(timeout))
    await settle()
    return task


async def test_draining_what_is_empty_is_true_at_once(purgatory):
    assert await purgatory.drain() is True
    assert await purgatory.drain(0) is True


async def test_it_waits_until_the_last_operation_has_ended(purgatory, manual_clock):
    first, second, third = watch(purgatory), watch(purgatory), watch(purgatory, timeout=5)
    task = await draining(purgatory)
    first.force_complete()
    second.cancel()
    await settle()
    assert not task.done()
    manual_clock.advance(5)
    assert await task is True
    assert third.outcome == "expired"


async def test_from_the_call_on_watching_is_refused(purgatory):
    operation = watch(purgatory)
    task = await draining(purgatory)
    log: list[str] = []
    with pytest.raises(PurgatoryClosed, match="draining"):
        purgatory.try_complete_else_watch(Recorded(log, holds=lambda: True), ["k"])
    with pytest.raises(PurgatoryClosed, match="draining"):
        await purgatory.wait("k", until=lambda: True)
    assert log == []
    operation.cancel()
    assert await task


async def test_the_verbs_go_on_while_it_drains(purgatory):
    watch(purgatory, "a")
    task = await draining(purgatory)
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.complete_for_key("a") == 1
    assert await task is True


async def test_it_is_false_when_the_purgatory_clock_passes_the_timeout(purgatory, manual_clock):
    operation = watch(purgatory)
    task = await draining(purgatory, 3)
    manual_clock.advance(2.999)
    await settle()
    assert not task.done()
    manual_clock.advance(0.001)
    assert await task is False
    assert operation.outcome is None
    with pytest.raises(PurgatoryClosed):
        watch(purgatory)
    operation.cancel()


async def test_it_is_false_after_no_time(purgatory, manual_clock):
    operation = watch(purgatory)
    task = await draining(purgatory, 0)
    manual_clock.advance(0)
    assert await task is False
    operation.cancel()


async def test_closed_stays_false_until_close(purgatory):
    await purgatory.drain()
    assert purgatory.closed is False
    purgatory.close()
    assert purgatory.closed is True


async def test_it_works_on_a_full_purgatory_with_a_full_timer(manual_clock):
    timer = Timer(clock=manual_clock, max_pending=1)
    purgatory = Purgatory(timer=timer, max_pending=1)
    operation = watch(purgatory, timeout=60)
    task = await draining(purgatory, 3)
    assert not task.done()
    operation.cancel()
    assert await task is True
    assert_clean(purgatory)


async def test_closing_ends_a_drain(purgatory):
    watch(purgatory)
    task = await draining(purgatory)
    assert len(purgatory.close()) == 1
    assert await task is True


async def test_several_may_drain_at_once(purgatory, manual_clock):
    operation = watch(purgatory)
    patient, hasty = await draining(purgatory), await draining(purgatory, 1)
    manual_clock.advance(1)
    assert await hasty is False
    operation.cancel()
    assert await patient is True
    assert await purgatory.drain() is True


async def test_draining_what_is_closed_is_true(purgatory):
    purgatory.close()
    assert await purgatory.drain(1) is True


@pytest.mark.parametrize(
    ("timeout", "error"),
    [pytest.param(nan, ValueError, id="nan"), pytest.param("1", TypeError, id="str")],
)
async def test_a_bad_timeout_is_refused_and_changes_nothing(timeout, error, purgatory):
    with pytest.raises(error):
        await purgatory.drain(timeout)
    watch(purgatory).cancel()
