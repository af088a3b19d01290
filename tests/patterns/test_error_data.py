"""Errors of the patterns carry data: the keys waited on, the timeout, the limit."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
)
from purgatory_async.patterns import Barrier, Correlator, HandOff, Retrier, Watermark

SOON = 0.001


async def attempt() -> None:
    """Something to attempt."""


def barrier(purgatory: Purgatory) -> Barrier[str]:
    return Barrier(purgatory, "group", expect=2, timeout=30)


async def ended(wait: Awaitable[object], end: Callable[[], object]) -> None:
    """Wait in a task, and end the wait."""
    task = asyncio.ensure_future(wait)
    await asyncio.sleep(0)
    end()
    await task


async def reply_expires(purgatory: Purgatory) -> None:
    await Correlator[str](purgatory).expect(7, SOON)


async def reply_is_cancelled(purgatory: Purgatory) -> None:
    await ended(Correlator[str](purgatory).expect(7, 30), lambda: purgatory.cancel_for_key(7))


async def reply_is_closed(purgatory: Purgatory) -> None:
    await ended(Correlator[str](purgatory).expect(7, 30), purgatory.close)


async def member_arrives_again(purgatory: Purgatory) -> None:
    group = barrier(purgatory)
    again: list[asyncio.Task[object]] = []
    try:
        await ended(group.arrive("a"), lambda: again.append(asyncio.create_task(group.arrive("a"))))
    finally:
        again[0].cancel()


async def arrival_is_completed(purgatory: Purgatory) -> None:
    await ended(barrier(purgatory).arrive("a"), lambda: purgatory.complete_for_key("group"))


async def arrival_is_cancelled(purgatory: Purgatory) -> None:
    await ended(barrier(purgatory).arrive("a"), lambda: purgatory.cancel_for_key("group"))


async def barrier_is_closed(purgatory: Purgatory) -> None:
    await ended(barrier(purgatory).arrive("a"), purgatory.close)


async def barrier_loses_its_timer(purgatory: Purgatory) -> None:
    await ended(barrier(purgatory).arrive("a"), purgatory.timer.close)


async def item_is_kept_after_close(purgatory: Purgatory) -> None:
    purgatory.close()
    HandOff[str, int](purgatory).put("jobs", 1)


async def item_is_too_many(purgatory: Purgatory) -> None:
    jobs = HandOff[str, int](purgatory, max_items=1)
    jobs.put("jobs", 1)
    jobs.put("jobs", 2)


async def taker_expires(purgatory: Purgatory) -> None:
    await HandOff[str, int](purgatory).take("jobs", "more", timeout=SOON)


async def taker_is_completed(purgatory: Purgatory) -> None:
    jobs = HandOff[str, int](purgatory)
    await ended(jobs.take("jobs", "more"), lambda: purgatory.complete_for_key("more"))


async def key_is_too_many(purgatory: Purgatory) -> None:
    retrier = Retrier[str](purgatory.timer, max_pending=1)
    retrier.submit("one", attempt)
    try:
        retrier.submit("other", attempt)
    finally:
        await retrier.aclose()


async def retrier_is_closed(purgatory: Purgatory) -> None:
    retrier = Retrier[str](purgatory.timer)
    await retrier.aclose()
    retrier.submit("key", attempt)


async def value_is_not_reached(purgatory: Purgatory) -> None:
    await Watermark(timer=purgatory.timer).reach(42, timeout=SOON)


async def watermark_is_closed(purgatory: Purgatory) -> None:
    high = Watermark(timer=purgatory.timer)
    await ended(high.reach(42), high.close)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("wait", "error", "data"),
    [
        (reply_expires, OperationExpired, {"keys": (7,), "timeout": SOON}),
        (reply_is_cancelled, OperationCancelled, {"keys": (7,)}),
        (reply_is_closed, PurgatoryClosed, {"keys": (7,)}),
        (member_arrives_again, OperationCancelled, {"keys": ("group",)}),
        (arrival_is_completed, OperationCancelled, {"keys": ("group",)}),
        (arrival_is_cancelled, OperationCancelled, {"keys": ("group",)}),
        (barrier_is_closed, PurgatoryClosed, {"keys": ("group",)}),
        (barrier_loses_its_timer, PurgatoryClosed, {"keys": ("group",)}),
        (item_is_kept_after_close, PurgatoryClosed, {"keys": ("jobs",)}),
        (item_is_too_many, PurgatoryFull, {"limit": 1}),
        (taker_expires, OperationExpired, {"keys": ("jobs", "more"), "timeout": SOON}),
        (taker_is_completed, OperationCancelled, {"keys": ("jobs", "more")}),
        (key_is_too_many, PurgatoryFull, {"limit": 1}),
        (retrier_is_closed, PurgatoryClosed, {"keys": ("key",)}),
        (value_is_not_reached, OperationExpired, {"keys": (42,), "timeout": SOON}),
        (watermark_is_closed, PurgatoryClosed, {"keys": (42,)}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_an_error_of_a_pattern_carries_its_data(
    wait: Callable[[Purgatory], Coroutine[Any, Any, None]],
    error: type[PurgatoryError],
    data: dict[str, object],
) -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(error) as raised:
            await wait(purgatory)
    assert type(raised.value) is error
    assert {name: getattr(raised.value, name) for name in data} == data
