"""`assert_clean` passes for an empty purgatory, and names what is left in any other."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock, assert_clean, settle


class Parcel(DelayedOperation[None]):
    """Something to be named."""


def on_manual_clock(**settings) -> Purgatory:
    return Purgatory("parcels", timer=Timer(clock=ManualClock()), **settings)


def test_a_purgatory_that_was_never_used_is_clean() -> None:
    assert_clean(Purgatory())


def test_a_purgatory_whose_operations_have_ended_is_clean() -> None:
    purgatory = on_manual_clock()
    purgatory.try_complete_else_watch(Parcel(timeout=3600), ["door", "window"])
    purgatory.complete_for_key("door")
    assert_clean(purgatory)


def test_a_pending_operation_is_named_with_keys_and_purgatory() -> None:
    purgatory = on_manual_clock()
    purgatory.try_complete_else_watch(Parcel(timeout=3600), ["door", ("floor", 3)])
    with pytest.raises(AssertionError, match=r"1 .*pending.*'parcels'.*Parcel.*'door', \('floor', 3\)"):
        assert_clean(purgatory)
    purgatory.close()
    assert_clean(purgatory)


def test_many_pending_operations_are_counted_and_not_all_named() -> None:
    purgatory = on_manual_clock()
    for number in range(1_000):
        purgatory.try_complete_else_watch(Parcel(), [number])
    with pytest.raises(AssertionError, match="1000 operations") as caught:
        assert_clean(purgatory)
    assert len(str(caught.value)) < 2_000
    purgatory.close()


@pytest.mark.asyncio
async def test_a_waiting_task_is_not_clean_until_it_is_cancelled() -> None:
    async with Purgatory() as purgatory:
        task = asyncio.create_task(purgatory.wait("door", timeout=3600))
        await settle()
        with pytest.raises(AssertionError, match="'door'"):
            assert_clean(purgatory)
        task.cancel()
        await settle()
        assert_clean(purgatory)


@pytest.mark.asyncio
async def test_a_completed_operation_leaves_no_armed_wakeup() -> None:
    purgatory = Purgatory()
    purgatory.try_complete_else_watch(Parcel(timeout=3600), ["door"])
    purgatory.complete_for_key("door")
    assert_clean(purgatory)
    assert purgatory.timer.next_deadline is None
    purgatory.close()


@pytest.mark.asyncio
async def test_a_pending_callback_on_the_own_timer_is_reported() -> None:
    purgatory = Purgatory()
    handle = purgatory.timer.call_later(3600, print)
    with pytest.raises(AssertionError, match="1 timer entries"):
        assert_clean(purgatory)
    handle.cancel()
    assert_clean(purgatory)
    purgatory.close()


def test_entries_of_others_on_a_shared_timer_are_ignored() -> None:
    timer = Timer(clock=ManualClock())
    purgatory = Purgatory(timer=timer)
    timer.call_later(3600, print)
    assert_clean(purgatory)
