"""Takers that are cancelled or interrupted beside their item: it goes to its place and the next taker, never away."""

import asyncio
import time
from collections import Counter
from itertools import permutations, product
from random import Random

import anyio
import pytest

from purgatory_async import DelayedOperation, OperationExpired, Purgatory
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, settle
from tests.core.recording import errors_of_loop
from tests.patterns.test_hand_off import takers
from tests.patterns.waiters import WAYS, Waiter, after, let_pass

pytestmark = pytest.mark.asyncio


# One taker cancelled.


async def test_what_comes_back_goes_to_the_next_taker_of_its_own_key(jobs):
    (taker,) = await takers(jobs, 1, "a", "b", "c")
    of_a, of_c, of_b = [Waiter(jobs.take(key)) for key in "acb"]
    await settle()
    jobs.put("b", "item")
    taker.cancel()
    await settle()
    assert (of_a.got, of_c.got, of_b.got) == (None, None, ("b", "item"))
    for key in "ac":
        jobs.put(key, "")


async def test_an_item_goes_on_until_a_taker_stays(jobs):
    several = await takers(jobs, 100, "k")
    jobs.put("k", "item")
    for taker in several[:-1]:
        taker.cancel()  # each has the item when its turn comes
        await asyncio.sleep(0)
        assert taker.got == "cancelled"
    await settle()
    assert several[-1].got == ("k", "item")
    assert (len(jobs), jobs.returned) == (0, 99)


async def test_a_taker_swallowing_its_cancellation_waits_its_turn(jobs):
    got = []

    async def stubborn():
        for _ in range(3):
            try:
                got.append(await jobs.take("k"))
            except asyncio.CancelledError:
                got.append("cancelled")

    task = asyncio.create_task(stubborn())
    await settle()
    jobs.put("k", 1)
    task.cancel()
    await settle()
    assert got == ["cancelled", ("k", 1)]  # no other taker waited
    (other,) = await takers(jobs, 1, "k")
    jobs.put("k", 2)
    task.cancel()
    await task
    await settle()
    assert (got[2:], other.got) == (["cancelled"], ("k", 2))


# Several cancelled at once.


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("followers", [0, 2, 6])
async def test_several_cancelled_at_once_leave_their_items_in_order(jobs, order, followers):
    several = await takers(jobs, 4, "k")
    waiting = await takers(jobs, followers, "k")
    for number in range(4):
        assert jobs.put("k", number) is True
    for taker in several[::order]:
        taker.cancel()
    await settle()
    assert {taker.got for taker in several} == {"cancelled"}
    assert [taker.got for taker in waiting if taker.got] + jobs.clear() == [
        ("k", number) for number in range(4)
    ]
    for _ in waiting[4:]:
        jobs.put("k", "")


# Time that is up.


async def under_asyncio_timeout(coroutine, seconds):
    async with asyncio.timeout(seconds):
        await coroutine


async def under_wait_for(coroutine, seconds):
    await asyncio.wait_for(coroutine, seconds)


async def under_anyio_move_on_after(coroutine, seconds):
    with anyio.move_on_after(seconds):
        await coroutine


async def under_anyio_fail_after(coroutine, seconds):
    with anyio.fail_after(seconds):
        await coroutine


async def take_into(got, jobs, timeout=None):
    got.append(await jobs.take("k", timeout=timeout))


each_limit = pytest.mark.parametrize(
    "limit",
    [under_asyncio_timeout, under_wait_for, under_anyio_move_on_after, under_anyio_fail_after],
    ids=lambda limit: limit.__name__,
)


@pytest.mark.asyncio(loop_factories=["virtual"])
@each_limit
@pytest.mark.parametrize("asked_first", ["put", "limit"])
@pytest.mark.parametrize("blocked", [0, 5], ids=["idle", "blocked"])
async def test_a_limit_that_comes_with_the_item_loses_nothing(limit, asked_first, blocked):
    loop = asyncio.get_running_loop()
    for put_at, own_timeout in product([0.999999999, 1.0, 1.000000001], [None, 1]):
        start, got = loop.time(), []
        async with Purgatory() as purgatory:
            jobs = HandOff(purgatory)
            if asked_first == "put":
                loop.call_at(start + put_at, jobs.put, "k", "item")
            task = asyncio.create_task(limit(take_into(got, jobs, own_timeout), 1))
            await asyncio.sleep(0)
            if asked_first == "limit":
                loop.call_at(start + put_at, jobs.put, "k", "item")
            loop.call_at(start + 0.5, loop._jump, blocked)  # a callback that takes so long
            await asyncio.wait([task], timeout=10)
            assert task.exception() is None or isinstance(task.exception(), TimeoutError)
            await asyncio.sleep(10)
            assert got + jobs.clear() == [("k", "item")]
        assert_clean(purgatory)


@pytest.mark.slow
@each_limit
@pytest.mark.parametrize("put_first", [True, False], ids=["put, then blocked", "blocked, then put"])
async def test_a_loop_blocked_past_the_limit_loses_nothing(limit, put_first):
    loop = asyncio.get_running_loop()
    for _ in range(50):
        got = []
        async with Purgatory() as purgatory:
            jobs = HandOff(purgatory)
            task = asyncio.create_task(limit(take_into(got, jobs), 0.002))
            await asyncio.sleep(0)
            until = loop.time() + 0.003
            if put_first:
                jobs.put("k", "item")
            while time.monotonic() < until:
                pass
            if not put_first:
                jobs.put("k", "item")
            await asyncio.wait([task])
            assert task.exception() is None or isinstance(task.exception(), TimeoutError)
            assert got + jobs.clear() == [("k", "item")]
        assert_clean(purgatory)


@pytest.mark.parametrize("steps", list(permutations(["put", "expire", "cancel"])), ids="-".join)
@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
async def test_an_expiry_in_the_very_moment_of_the_item_loses_nothing(
    purgatory, manual_clock, steps, followed
):
    jobs = HandOff(purgatory)
    (taker,) = await takers(jobs, 1, "k", timeout=1)
    followers = await takers(jobs, followed, "k", timeout=2)
    for step in steps:
        if step == "put":
            jobs.put("k", "item")
        elif step == "expire":
            manual_clock.advance(1)
        else:
            taker.cancel()
    await settle()
    assert taker.got == "cancelled"
    assert ([follower.got for follower in followers] or jobs.clear()) == [("k", "item")]


@pytest.mark.parametrize("asked_first", ["put", "expiry"])
async def test_an_item_put_at_the_deadline_is_taken_or_kept(purgatory, manual_clock, asked_first):
    jobs = HandOff(purgatory)
    if asked_first == "put":
        purgatory.timer.call_later(1, jobs.put, "k", "item")
    (taker,) = await takers(jobs, 1, "k", timeout=1)
    if asked_first == "expiry":
        purgatory.timer.call_later(1, jobs.put, "k", "item")
    manual_clock.advance(1)
    await settle()
    kept = jobs.clear()
    assert (taker.got, kept) == (("k", "item"), []) or (type(taker.got), kept) == (
        OperationExpired,
        [("k", "item")],
    )


# The end of everything.


@pytest.mark.parametrize("end", ["closed", "draining"])
async def test_given_and_cancelled_at_the_end_the_item_goes_on(purgatory, end):
    jobs = HandOff(purgatory)
    given, waits = await takers(jobs, 2, "k")
    drained = asyncio.create_task(purgatory.drain()) if end == "draining" else None
    await settle()
    jobs.put("k", "item")
    given.cancel()
    if drained is None:
        purgatory.close()
    await settle()
    assert (given.got, waits.got, jobs.clear()) == ("cancelled", ("k", "item"), [])
    assert drained is None or await drained is True


OFFSETS = range(4)  # passes of the loop between the put and the cancellation


# Which of the two comes first, and which of the two was asked for first: in one pass that one goes first.
ORDERS = tuple(product(["put", "cancel"], repeat=2))


LONGEST_LEAD = max(way.lead for way in WAYS)


ROUNDS_OF_A_BATCH = tuple(product(OFFSETS, ORDERS, WAYS, ["followed", "alone"]))


class Round:
    """One item, and one taker that is cancelled; another one may wait behind it."""

    def __init__(self, jobs, key, plan):
        self.offset, (self.first, self.asked_first), way, followed = plan
        self.jobs, self.key = jobs, key
        self.taker = way(jobs.take(key))
        self.follower = Waiter(jobs.take(key)) if followed == "followed" else None
        self.had_taker = None

    def begin(self):
        """Ask for both, some passes from now."""
        later = LONGEST_LEAD + self.offset
        put_in, cancel_in = (LONGEST_LEAD, later) if self.first == "put" else (later, LONGEST_LEAD)
        steps = [(put_in, self.put), (cancel_in - self.taker.lead, self.taker.cancel)]
        for passes, step in steps if self.asked_first == "put" else reversed(steps):
            after(passes, step)

    def put(self):
        self.had_taker = self.jobs.put(self.key, self)

    def end(self, kept):
        """See that the item is in one place; tell how it went for the taker."""
        places = [taker.got for taker in (self.taker, self.follower) if taker and type(taker.got) is tuple]
        places += [kept[self.key]] if self.key in kept else []
        assert places == [(self.key, self)], f"{self.__dict__}: the item is in {places}"
        assert not (self.follower and self.key in kept), f"{self.__dict__}: kept, while a taker waits"
        if type(self.taker.got) is tuple:
            return "returned"
        if self.follower:
            return "cancelled"
        return "given, then cancelled" if self.had_taker else "cancelled before"


async def run_batch(jobs, purgatory, shuffle, keys):
    """Run one round of each kind, all at once; returns them, and what is kept of their items."""
    rounds = [Round(jobs, number % keys, plan) for number, plan in enumerate(ROUNDS_OF_A_BATCH)]
    await let_pass(3)
    shuffle(rounds)
    for each in rounds:
        each.begin()
    await let_pass(LONGEST_LEAD + max(OFFSETS) + 3)
    for key in range(keys):
        purgatory.cancel_for_key(key)
    await let_pass(2)
    assert purgatory.pending == 0
    return rounds, jobs.clear()


@pytest.mark.parametrize("number", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_cancelling_a_taker_neither_loses_nor_doubles_its_item(purgatory, number, record_property):
    reports = errors_of_loop()
    jobs = HandOff(purgatory)
    shuffle = Random(number).shuffle
    ends = Counter()
    while ends.total() < number:
        rounds, kept = await run_batch(jobs, purgatory, shuffle, len(ROUNDS_OF_A_BATCH))
        kept_for = {key: (key, item) for key, item in kept}
        assert len(kept_for) == len(kept)
        ends += Counter(each.end(kept_for) for each in rounds)
    for end, times in ends.items():
        record_property(end, times)
    # The race was one: a fair share of each way to go, and above all of the one in which items get lost.
    assert ends["returned"] > number / 10
    assert ends["cancelled before"] > number / 10
    assert ends["given, then cancelled"] > number / 20
    assert reports == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("keys", [1, 3])
async def test_in_a_crowd_on_few_keys_no_item_is_lost_or_doubled(purgatory, keys):
    jobs = HandOff(purgatory)
    shuffle = Random(keys).shuffle
    for _ in range(10):
        rounds, kept = await run_batch(jobs, purgatory, shuffle, keys)
        takers = [taker for each in rounds for taker in (each.taker, each.follower) if taker]
        assert all(taker.got for taker in takers)
        taken = [taker.got for taker in takers if type(taker.got) is tuple]
        assert len(taken) > len(rounds) / 4
        assert Counter(taken + kept) == Counter((each.key, each) for each in rounds)


interrupts = pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])


class Neighbour(DelayedOperation):
    """Completes in its next check; its hook raises."""

    def __init__(self, interrupt):
        super().__init__()
        self.interrupt = interrupt
        self.ready = False

    def try_complete(self):
        return self.ready and self.force_complete()

    def on_complete(self):
        raise self.interrupt


def neighbour_of(purgatory, interrupt):
    neighbour = Neighbour(interrupt)
    purgatory.try_complete_else_watch(neighbour, ["k"])
    neighbour.ready = True


@interrupts
@pytest.mark.parametrize("put", [HandOff.put, HandOff.put_back])
async def test_an_interrupted_put_still_serves_the_taker(jobs, purgatory, interrupt, put):
    neighbour_of(purgatory, interrupt)
    (taker,) = await takers(jobs, 1, "k")
    with pytest.raises(interrupt):
        put(jobs, "k", "item")
    assert len(jobs) == 0
    await settle()
    assert taker.got == ("k", "item")


@interrupts
async def test_an_interrupted_put_keeps_its_item_without_a_taker(jobs, purgatory, interrupt):
    neighbour_of(purgatory, interrupt)
    with pytest.raises(interrupt):
        jobs.put("k", "item")
    assert jobs.clear() == [("k", "item")]


async def test_every_interrupting_neighbour_is_passed(jobs, purgatory):
    neighbour_of(purgatory, KeyboardInterrupt)
    neighbour_of(purgatory, SystemExit)
    taker = Waiter(jobs.take("k"))
    await settle()
    with pytest.raises(SystemExit):
        jobs.put("k", "item")
    await settle()
    assert taker.got == ("k", "item")
