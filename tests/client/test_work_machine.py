"""`work` in random stories of items, handlers, leases, outages and restarts, in virtual time."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from purgatory_async.client import AsyncVerbs, Lease
from purgatory_async.testing import VirtualTimeLoop, settle
from tests.client.queues_in_memory import QueuesInMemory
from tests.machines import LoopMachine, explore

QUEUES = ("urgent", "mail")
CONCURRENCY = 3
LEASE, GRACE = 10.0, 4.0
RETRY = (1.0, 5.0, 3.0)
JITTER_S = 0.1  # of calls that come a little later


class Failed(Exception):  # noqa: N818 - a handler's
    """What a handler raises."""


@dataclass(eq=False)
class Run:
    """A handler that runs until the story says how it ends."""

    lease: Lease
    stubborn: bool = False
    ended: str = ""
    cancelled: bool = False
    end: asyncio.Future = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Work(LoopMachine):
    new_loop = VirtualTimeLoop

    def __init__(self):
        super().__init__()
        self.open_loop()
        self.run(self.open())

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    async def open(self):
        self.store = QueuesInMemory()
        self.put_items, self.runs, self.running, self.errors = [], [], [], []
        self.stolen, self.stubborn, self.lost_at = set(), set(), {}
        self.was_cancelled, self.cancelled_at = False, None
        self.task = None
        self.begin()

    def begin(self):
        self.cancelled_at = None
        call = AsyncVerbs.work(
            self.store,
            QUEUES,
            self.handle,
            concurrency=CONCURRENCY,
            lease=LEASE,
            retry=RETRY,
            on_error=lambda lease, error: self.errors.append((lease, error)),
            grace=GRACE,
        )
        self.task = self.loop.create_task(call)

    async def handle(self, lease):
        run = Run(lease, lease.item in self.stubborn)
        self.runs.append(run)
        self.running.append(run)
        assert len(self.running) <= CONCURRENCY
        try:
            while not run.end.done():
                try:
                    await asyncio.wait({run.end})
                except asyncio.CancelledError:
                    run.cancelled = True
                    if not run.stubborn:
                        run.ended = "cancelled"
                        raise
            run.ended = run.end.result()
            if run.ended == "raises":
                raise Failed(lease.item)
            if run.ended == "cancels itself":
                raise asyncio.CancelledError
        finally:
            self.running.remove(run)

    # What happens.

    @rule(
        queue=st.sampled_from(QUEUES),
        delay=st.sampled_from((0, 0, 3)),
        stubborn=st.lists(st.booleans(), min_size=1, max_size=5),
    )
    def put(self, queue, delay, stubborn):
        async def puts():
            for ignores_cancellation in stubborn:
                self.put_items.append(len(self.put_items))
                if ignores_cancellation:
                    self.stubborn.add(self.put_items[-1])
                self.store.put(queue, self.put_items[-1], delay)
            await settle()

        self.run(puts())

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, CONCURRENCY), how=st.sampled_from(("returns", "raises", "cancels itself")))
    def a_handler_ends(self, which, how):
        async def end():
            run = self.running[which % len(self.running)]
            if not run.end.done():
                run.end.set_result(how)
            await settle()

        self.run(end())

    @rule(seconds=st.sampled_from((0.01, 0.9, 4.9, 5.1, 9.9, 10.1, 30.0)))
    def time_passes(self, seconds):
        self.run(asyncio.sleep(seconds))

    @rule(answers=st.integers(0, 2))
    def the_store_goes_away(self, answers):
        # Lost answers may have changed the lease: what becomes of it is not known here.
        self.store.lose_answers = answers
        self.store.away = not answers

    @precondition(lambda self: self.store.away)
    @rule()
    def the_store_comes_back(self):
        async def back():
            self.store.comes_back()
            await settle()

        self.run(back())

    @precondition(lambda self: self.store.leases)
    @rule(which=st.integers(0, CONCURRENCY))
    def a_lease_is_stolen(self, which):
        async def steal():
            lease_id = list(self.store.leases)[which % len(self.store.leases)]
            self.stolen.add(lease_id)
            self.store.steal(lease_id)
            await settle()

        self.run(steal())

    @precondition(lambda self: self.task is not None)
    @rule()
    def the_work_is_cancelled(self):
        if self.cancelled_at is None:
            self.was_cancelled, self.cancelled_at = True, self.loop.time()
        self.task.cancel()
        self.run(settle())

    @precondition(lambda self: self.task is not None and self.task.done())
    @rule()
    def the_work_starts_again(self):
        assert self.task.cancelled()
        self.run(self.started())

    async def started(self):
        self.begin()
        await settle()

    # What holds.

    @invariant()
    def no_more_run_than_may(self):
        assert len(self.running) <= CONCURRENCY

    @invariant()
    def one_handler_has_an_item_while_its_lease_holds(self):
        held = [run.lease.item for run in self.running if run.lease.id in self.store.leases]
        assert len(held) == len(set(held))

    @invariant()
    def a_handler_is_cancelled_when_its_lease_is_lost_or_its_grace_is_over(self):
        now = self.loop.time()
        for run in self.running:
            if run.lease.id not in self.store.leases:
                lost_at = self.lost_at.setdefault(run.lease.id, now)
                assert run.cancelled or now <= lost_at + LEASE + JITTER_S
            if self.cancelled_at is not None:
                assert run.cancelled or now <= self.cancelled_at + GRACE + JITTER_S

    @invariant()
    def only_what_returned_is_acknowledged(self):
        returned = {run.lease.item for run in self.runs if run.ended == "returns"}
        assert set(self.store.acknowledged) <= returned
        assert len(self.store.acknowledged) == len(set(self.store.acknowledged)), "once"

    @invariant()
    def an_item_that_is_given_back_is_hidden_within_its_bounds(self):
        first, factor, most = RETRY
        failed = {lease.id for lease, _ in self.errors}
        assert failed <= {run.lease.id for run in self.runs if run.ended == "raises"}
        for item, delay in self.store.given_back:
            longest = min(first * factor ** (item.attempts - 1), most)
            how = {run.ended for run in self.runs if run.lease.item == item.item}
            assert delay is None or longest / 2 <= delay <= longest
            assert (how != {"raises"}) or delay is not None
            assert ("raises" in how) or delay is None

    @invariant()
    def every_item_is_somewhere(self):
        store = self.store
        ready = [each.item for queue in store.ready.values() for each in queue]
        hidden = [each.item for each in store.hidden]
        leased = [each.item.item for each in store.leases.values()]
        assert sorted([*ready, *hidden, *leased, *store.acknowledged]) == self.put_items

    @invariant()
    def attempts_are_runs(self):
        """But for a lease whose handler could not begin, none counts an attempt that did not run."""
        for queue in self.store.ready.values():
            for each in queue:
                assert each.attempts == sum(run.lease.item == each.item for run in self.runs)

    def end(self):
        """In peace every item is acknowledged, and after the work nothing is leased."""

        async def peace():
            self.store.lose_answers = 0
            self.store.comes_back()
            for _ in range(len(self.put_items) + CONCURRENCY + 1):
                if self.task.done():
                    self.begin()
                for run in self.running:
                    if not run.end.done():
                        run.end.set_result("returns")
                await asyncio.sleep(2 * LEASE + RETRY[2])
            assert not self.running
            assert sorted(self.store.acknowledged) == self.put_items
            self.task.cancel()
            await asyncio.wait({self.task})
            assert self.task.cancelled()
            assert not self.store.leases
            assert len(asyncio.all_tasks()) == 1

        self.run(peace())
        self.every_item_is_somewhere()
        self.each_ran_once_while_its_leases_held()

    def each_ran_once_while_its_leases_held(self):
        lost = self.stolen | self.store.expired
        for item in self.put_items:
            *again, last = [run for run in self.runs if run.lease.item == item]
            assert last.ended == "returns"
            for run in again:
                assert run.ended != "returns" or run.lease.id in lost
        for run in self.runs:
            assert not run.cancelled or run.lease.id in lost or self.was_cancelled


@pytest.mark.slow
def test_many_stories_of_work():
    explore(Work, examples=1000, steps=60)


def test_stories_of_work():
    explore(Work, examples=40, steps=40)
