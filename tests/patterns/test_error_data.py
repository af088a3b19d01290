"""Errors of the patterns carry data: the keys waited on, the timeout, the limit."""

import asyncio
from collections.abc import Awaitable, Callable
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
from purgatory_async.patterns import (
    Barrier,
    Broadcast,
    Correlator,
    HandOff,
    KeyedLock,
    Retrier,
    SingleFlight,
    SubscriberLagged,
    Watermark,
)

SOON = 0.001


async def attempt() -> None:
    """Something to attempt."""


def barrier(purgatory: Purgatory) -> Barrier[str]:
    return Barrier(purgatory, "group", expect=2, timeout=30)


def jobs(purgatory: Purgatory, **settings: Any) -> HandOff[str, int]:
    return HandOff(purgatory, **settings)


def reply(purgatory: Purgatory, timeout: float = 30) -> Awaitable[object]:
    return Correlator[str](purgatory).expect(7, timeout)


def request(purgatory: Purgatory, timeout: float = 30) -> Awaitable[object]:
    return Correlator[str](purgatory, ids=range(7, 8)).request(asyncio.sleep, timeout=timeout)


async def ids_are_taken(purgatory: Purgatory) -> None:
    with Correlator[str](purgatory).expect(7, None):
        await request(purgatory)


def page(purgatory: Purgatory, timeout: float = 30) -> Awaitable[object]:
    return SingleFlight(purgatory).run("page", asyncio.Event().wait, timeout=timeout)


async def subscriber_lags(purgatory: Purgatory) -> None:
    news = Broadcast[int](purgatory, max_items=2)
    subscriber = news.subscribe(on_lag="raise")
    for item in range(5):
        news.publish(item)
    await anext(subscriber)


async def member_arrives_again(purgatory: Purgatory) -> None:
    group = barrier(purgatory)
    first, again = [asyncio.ensure_future(group.arrive("a")) for _ in range(2)]
    try:
        await first
    finally:
        again.cancel()


async def item_is_kept_after_close(purgatory: Purgatory) -> None:
    purgatory.close()
    jobs(purgatory).put("jobs", 1)


async def item_is_too_many(purgatory: Purgatory) -> None:
    queue = jobs(purgatory, max_items=1)
    queue.put("jobs", 1)
    queue.put("jobs", 2)


async def hold(purgatory: Purgatory, timeout: float | None = None) -> None:
    """Hold a key, and wait for it."""
    lock = KeyedLock(purgatory)
    async with lock.hold("k"), lock.hold("k", timeout=timeout):
        pass


async def key_is_held_after_close(purgatory: Purgatory) -> None:
    purgatory.close()
    await hold(purgatory)


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


async def watermark_is_closed(purgatory: Purgatory) -> None:
    high = Watermark(timer=purgatory.timer)
    asyncio.get_running_loop().call_soon(high.close)
    await high.reach(42)


Wait = Callable[[Purgatory], Awaitable[object]]
End = Callable[[Purgatory], object]
GROUP = {"keys": ("group",)}
CASES: dict[str, tuple[Wait, End, type[PurgatoryError], dict[str, object]]] = {
    "reply expires": (lambda p: reply(p, SOON), id, OperationExpired, {"keys": (7,), "timeout": SOON}),
    "reply is cancelled": (reply, lambda p: p.cancel_for_key(7), OperationCancelled, {"keys": (7,)}),
    "reply is closed": (reply, Purgatory.close, PurgatoryClosed, {"keys": (7,)}),
    "request expires": (lambda p: request(p, SOON), id, OperationExpired, {"keys": (7,), "timeout": SOON}),
    "ids are taken": (ids_are_taken, id, PurgatoryFull, {"limit": 1}),
    "subscriber lags": (subscriber_lags, id, SubscriberLagged, {"missed": 3, "index": 3}),
    "next item expires": (
        lambda p: Broadcast[int](p).next(0, timeout=SOON),
        id,
        OperationExpired,
        {"timeout": SOON},
    ),
    "member arrives again": (member_arrives_again, id, OperationCancelled, GROUP),
    "arrival is completed": (
        lambda p: barrier(p).arrive("a"),
        lambda p: p.complete_for_key("group"),
        OperationCancelled,
        GROUP,
    ),
    "arrival is cancelled": (
        lambda p: barrier(p).arrive("a"),
        lambda p: p.cancel_for_key("group"),
        OperationCancelled,
        GROUP,
    ),
    "barrier is closed": (lambda p: barrier(p).arrive("a"), Purgatory.close, PurgatoryClosed, GROUP),
    "barrier loses its timer": (
        lambda p: barrier(p).arrive("a"),
        lambda p: p.timer.close(),
        PurgatoryClosed,
        GROUP,
    ),
    "item is kept after close": (item_is_kept_after_close, id, PurgatoryClosed, {"keys": ("jobs",)}),
    "item is too many": (item_is_too_many, id, PurgatoryFull, {"limit": 1}),
    "taker expires": (
        lambda p: jobs(p).take("jobs", "more", timeout=SOON),
        id,
        OperationExpired,
        {"keys": ("jobs", "more"), "timeout": SOON},
    ),
    "taker is completed": (
        lambda p: jobs(p).take("jobs", "more"),
        lambda p: p.complete_for_key("more"),
        OperationCancelled,
        {"keys": ("jobs", "more")},
    ),
    "hold expires": (lambda p: hold(p, SOON), id, OperationExpired, {"keys": ("k",), "timeout": SOON}),
    "hold is closed": (hold, Purgatory.close, PurgatoryClosed, {"keys": ("k",)}),
    "hold is refused": (key_is_held_after_close, id, PurgatoryClosed, {"keys": ("k",)}),
    "hold is cancelled": (
        hold,
        lambda p: next(p.operations()).cancel(),
        OperationCancelled,
        {"keys": ("k",)},
    ),
    "call expires": (
        lambda p: page(p, SOON),
        id,
        OperationExpired,
        {"keys": ("page",), "timeout": SOON},
    ),
    "call is closed": (page, Purgatory.close, PurgatoryClosed, {"keys": ("page",)}),
    "key is too many": (key_is_too_many, id, PurgatoryFull, {"limit": 1}),
    "retrier is closed": (retrier_is_closed, id, PurgatoryClosed, {"keys": ("key",)}),
    "value is not reached": (
        lambda p: Watermark(timer=p.timer).reach(42, timeout=SOON),
        id,
        OperationExpired,
        {"keys": (42,), "timeout": SOON},
    ),
    "watermark is closed": (watermark_is_closed, id, PurgatoryClosed, {"keys": (42,)}),
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("wait", "end", "error", "data"), CASES.values(), ids=CASES)
async def test_an_error_of_a_pattern_carries_its_data(
    wait: Wait, end: End, error: type[PurgatoryError], data: dict[str, object]
) -> None:
    async with Purgatory() as purgatory:
        waiting = asyncio.ensure_future(wait(purgatory))
        await asyncio.sleep(0)
        end(purgatory)
        with pytest.raises(error) as raised:
            await waiting
    assert type(raised.value) is error
    assert {name: getattr(raised.value, name) for name in data} == data
