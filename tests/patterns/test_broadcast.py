"""A broadcast: what subscribers get, in which order, when they lag, and how it ends."""

import asyncio
import weakref

import pytest

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.patterns import Broadcast, Lagged, Published, SubscriberLagged
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.loop.worlds import by_reference_counts_alone
from tests.patterns.waiters import Waiter, let_pass

pytestmark = pytest.mark.asyncio


@pytest.fixture
def news(purgatory):
    """A broadcast of a few items."""
    return Broadcast(purgatory, max_items=4)


def publish(news, *items):
    return [news.publish(item) for item in items]


async def events_of(subscriber):
    return [event async for event in subscriber]


def published(*indexes):
    """The events of items that are their indexes as text."""
    return [Published(index, str(index)) for index in indexes]


# What a subscriber gets.


async def test_every_subscriber_gets_every_item_in_order(news):
    several = [Waiter(events_of(news.subscribe())) for _ in range(3)]
    await settle()
    assert publish(news, "1", "2") == [1, 2]
    await settle()
    assert publish(news, "3") == [3]
    news.close()
    assert [await each.end() for each in several] == [published(1, 2, 3)] * 3


async def test_a_subscriber_begins_when_it_is_made_not_when_it_reads(news):
    publish(news, "1")
    subscriber = news.subscribe()
    publish(news, "2")
    news.close()
    assert await events_of(subscriber) == published(2)


@pytest.mark.parametrize("after", range(4))
async def test_it_goes_on_after_an_index(news, after):
    publish(news, "1", "2", "3")
    subscriber = news.subscribe(after=after)
    publish(news, "4")
    news.close()
    assert await events_of(subscriber) == published(*range(after + 1, 5))


async def test_all_get_the_same_event_object(news):
    one, other = news.subscribe(), news.subscribe()
    publish(news, "1")
    assert await anext(one) is await anext(other) is await news.next(0)


async def test_a_published_none_or_falsy_item_is_an_item(news):
    subscriber = news.subscribe()
    publish(news, None, 0)
    news.close()
    assert await events_of(subscriber) == [Published(1, None), Published(2, 0)]


async def test_a_cancelled_step_loses_nothing(news):
    subscriber = news.subscribe()
    waiter = Waiter(anext(subscriber))
    await settle()
    publish(news, "1")
    waiter.cancel()
    await settle()
    assert waiter.got == "cancelled"
    assert await anext(subscriber) == Published(1, "1")


async def test_two_tasks_cannot_read_one_subscriber_at_once(news):
    subscriber = news.subscribe()
    waiter = Waiter(anext(subscriber))
    await settle()
    with pytest.raises(PurgatoryError, match="cannot read it twice at once"):
        await anext(subscriber)
    publish(news, "1")
    assert await waiter.end() == Published(1, "1")


# `next`.


async def test_next_gives_what_is_kept_at_once_or_waits(news):
    publish(news, "1")
    assert await news.next(0, timeout=0) == Published(1, "1")
    waiter = Waiter(news.next(1))
    await settle()
    assert waiter.got is None
    publish(news, "2")
    assert await waiter.end() == Published(2, "2")


async def test_next_expires_and_names_what_did_not_come(news, purgatory, manual_clock):
    waiter = Waiter(news.next(0, timeout=5))
    await settle()
    manual_clock.advance(5)
    error = await waiter.end()
    assert isinstance(error, OperationExpired)
    assert str(error) == "no item after 0 was published within 5 s"
    assert error.timeout == 5


# Limits and lag.


async def test_who_is_behind_learns_how_many_it_missed_first(news):
    subscriber = news.subscribe()
    publish(news, *"1234567")
    assert (news.oldest, news.newest) == (4, 7)
    assert await anext(subscriber) == Lagged(missed=3, index=3)
    news.close()
    assert await events_of(subscriber) == published(4, 5, 6, 7)


async def test_the_index_of_a_lag_is_a_good_after(news):
    publish(news, *"1234567")
    lagged = await news.next(1)
    assert lagged == Lagged(missed=2, index=3)
    assert await news.next(lagged.index) == Published(4, "4")
    assert await anext(news.subscribe(after=lagged.index)) == Published(4, "4")


async def test_an_after_above_the_newest_is_a_lag_of_unknown_size(news):
    publish(news, *"1234567")
    assert await news.next(8) == Lagged(missed=None, index=3)
    subscriber = news.subscribe(after=8)
    publish(news, "8", "9")  # not those that the subscriber has had
    assert await anext(subscriber) == Lagged(missed=None, index=5)
    assert await anext(subscriber) == Published(6, "6")
    assert await Broadcast(Purgatory()).next(1) == Lagged(missed=None, index=0)


async def test_a_lag_can_be_raised_and_the_iterator_goes_on(news):
    subscriber = news.subscribe(on_lag="raise")
    publish(news, *"1234567")
    with pytest.raises(SubscriberLagged, match="missed 3 items up to 3") as caught:
        await anext(subscriber)
    assert (caught.value.missed, caught.value.index) == (3, 3)
    news.close()
    assert await events_of(subscriber) == published(4, 5, 6, 7)
    with pytest.raises(SubscriberLagged, match="missed an unknown number of items") as caught:
        await anext(news.subscribe(after=9, on_lag="raise"))
    assert caught.value.missed is None


async def test_bytes_limit_what_is_kept_and_the_newest_always_is(purgatory):
    news = Broadcast(purgatory, max_bytes=10)
    publish(news, b"x" * 4, b"x" * 4, b"x" * 2)
    assert (news.oldest, news.newest) == (1, 3)
    publish(news, b"x")
    assert (news.oldest, news.newest) == (2, 4)
    publish(news, b"x" * 10)
    assert (news.oldest, news.newest) == (5, 5)
    publish(news, b"", b"")
    assert (news.oldest, news.newest) == (5, 7)


async def test_an_item_above_the_bytes_is_refused_and_changes_nothing(purgatory):
    news = Broadcast(purgatory, max_bytes=10)
    publish(news, b"1")
    waiter = Waiter(news.next(1))
    await settle()
    with pytest.raises(ValueError, match="item must be at most 10 bytes, got 11"):
        publish(news, b"x" * 11)
    await settle()
    assert (news.oldest, news.newest, waiter.got) == (1, 1, None)
    publish(news, b"2")
    assert await waiter.end() == Published(2, b"2")


async def test_size_of_is_asked_once_and_only_if_bytes_are_limited(purgatory):
    asked = []

    def size_of(item):
        asked.append(item)
        return item

    publish(Broadcast(purgatory, size_of=size_of), 1)
    assert asked == []
    news = Broadcast(purgatory, max_bytes=3, size_of=size_of)
    publish(news, 1, 2, 3)
    assert (asked, news.oldest) == ([1, 2, 3], 3)
    for wrong, error in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match=r"size_of\(item\) must be"):
            publish(news, wrong)
    assert news.newest == 3


# The end.


async def test_closing_gives_what_is_kept_then_ends(news, purgatory):
    waiting, behind, later = news.subscribe(), news.subscribe(after=0), news.subscribe(after=0)
    waiter = Waiter(events_of(waiting))
    await settle()
    publish(news, "1")
    news.close()
    news.close()
    assert await events_of(behind) == published(1)
    purgatory.close()
    assert await events_of(later) == published(1)
    assert await waiter.end() == published(1)
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(behind)


async def test_once_closed_it_refuses_to_publish_and_next(news):
    publish(news, "1")
    waiter = Waiter(news.next(1))
    await settle()
    news.close()
    assert isinstance(await waiter.end(), PurgatoryClosed)
    refused = r"<Broadcast in .* closed at 1 kept=1 subscribers=0> is closed: cannot "
    with pytest.raises(PurgatoryClosed, match=refused + "publish"):
        news.publish("2")
    for after in (0, 1):
        with pytest.raises(PurgatoryClosed, match=refused + "read"):
            await news.next(after)


async def test_an_item_of_the_pass_of_the_close_is_not_lost(news):
    waiter = Waiter(news.next(0))
    await settle()
    publish(news, "1")
    news.close()
    assert await waiter.end() == Published(1, "1")


async def test_a_closed_purgatory_is_raised_out_of_the_iteration(news, purgatory):
    subscriber, waiter = news.subscribe(), Waiter(events_of(news.subscribe()))
    await settle()
    publish(news, "1")
    await settle()
    purgatory.close()
    assert isinstance(await waiter.end(), PurgatoryClosed)
    with pytest.raises(PurgatoryClosed):
        await anext(subscriber)
    with pytest.raises(PurgatoryClosed):
        await news.next(0)
    with pytest.raises(PurgatoryClosed):
        news.publish("2")
    news.close()


async def test_a_draining_purgatory_refuses_only_what_would_wait(news, purgatory):
    publish(news, "1")
    assert await purgatory.drain()
    assert publish(news, "2") == [2]
    assert await news.next(1) == Published(2, "2")
    with pytest.raises(PurgatoryClosed):
        await news.next(2)


async def test_a_full_purgatory_refuses_and_the_iterator_goes_on():
    async with Purgatory(max_pending=1) as purgatory:
        news = Broadcast(purgatory)
        waiter, subscriber = Waiter(news.next(0)), news.subscribe()
        await settle()
        with pytest.raises(PurgatoryFull):
            await anext(subscriber)
        publish(news, "1")
        assert await anext(subscriber) == await waiter.end() == Published(1, "1")


async def test_another_thread_is_refused_and_nothing_is_published(news):
    waiter = Waiter(news.next(0))
    await settle()
    for verb in (lambda: news.publish("1"), news.close):
        with pytest.raises(PurgatoryError, match="belongs to a loop"):
            await asyncio.to_thread(verb)
    assert (news.newest, waiter.got) == (0, None)
    publish(news, "1")
    assert await waiter.end() == Published(1, "1")


# What is left.


@pytest.mark.parametrize("end", ["dropped", "ended"])
async def test_only_living_iterators_are_subscribers(news, purgatory, end):
    publish(news, "1")
    with by_reference_counts_alone():
        subscriber = news.subscribe(after=0)
        waiter = Waiter(events_of(news.subscribe()))
        await settle()
        assert (news.subscribers, purgatory.pending) == (2, 1)
        if end == "dropped":
            del subscriber
            waiter.cancel()
        else:
            news.close()
            await events_of(subscriber)
        await waiter.end()
        del waiter
        assert (news.subscribers, purgatory.pending) == (0, 0)


async def test_nothing_is_left_for_the_collector(purgatory):
    with by_reference_counts_alone():
        news = Broadcast(purgatory, max_items=2, max_bytes=100)
        subscriber, closing = news.subscribe(on_lag="raise"), news.subscribe()
        waiters = [Waiter(anext(closing)), Waiter(news.next(0, timeout=5)), Waiter(news.next(0))]
        await settle()
        waiters[2].cancel()
        publish(news, b"1", b"2", b"3", b"4")
        await settle()
        with pytest.raises(SubscriberLagged):
            await anext(subscriber)
        with pytest.raises(OperationExpired):
            await news.next(4, timeout=0)
        event = await news.next(3)
        news.close()
        await events_of(closing)
        gone = [weakref.ref(each) for each in (news, event, subscriber, closing)]
        del news, event, subscriber, closing, waiters
        await settle()
        assert [ref() for ref in gone] == [None] * 4


async def test_a_slow_subscriber_keeps_no_item_alive(purgatory):
    news = Broadcast(purgatory, max_items=2)
    with by_reference_counts_alone():
        subscriber = news.subscribe()
        items = [type("Item", (), {})() for _ in range(10)]
        publish(news, *items)
        alive = [weakref.ref(item) for item in items]
        del items
        assert [ref() is not None for ref in alive] == [False] * 8 + [True] * 2
        assert await anext(subscriber) == Lagged(8, 8)


@pytest.mark.parametrize("passes", range(3))
async def test_cancelled_anywhere_nothing_is_lost_or_doubled(passes):
    async def scenario():
        purgatory = Purgatory(timer=Timer(clock=ManualClock()))
        news = Broadcast(purgatory, max_items=8)
        subscriber, got = news.subscribe(), []
        other = Waiter(events_of(news.subscribe()))
        publishing = asyncio.get_running_loop().create_task(publish_all(news, passes))
        try:
            while len(got) < 4:
                got.append(await anext(subscriber))
                if len(got) < 4:
                    await news.next(len(got), timeout=5)
        finally:
            await publishing
            news.close()
            got += await events_of(subscriber)
            assert got == await other.end() == published(1, 2, 3, 4)
            del subscriber, other
            assert news.subscribers == 0
            assert_clean(purgatory)
            purgatory.close()

    assert await cancel_sweep(scenario) >= (4 if passes else 1)


async def publish_all(news, passes):
    """Publish four items, so many passes of the loop apart."""
    for item in "1234":
        await let_pass(passes)
        news.publish(item)
