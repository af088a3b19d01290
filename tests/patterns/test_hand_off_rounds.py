"""A hundred thousand takers cancelled beside their items, and takers cancelled everywhere: the books balance."""

import asyncio
from collections import Counter
from itertools import product
from random import Random

import pytest

from purgatory_async.patterns import HandOff
from tests.core.recording import errors_of_loop
from tests.patterns.takers import WAYS, Taker, after, let_pass

pytestmark = pytest.mark.asyncio

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
        self.taker = Taker(jobs, key, way=way)
        self.follower = Taker(jobs, key) if followed == "followed" else None
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
