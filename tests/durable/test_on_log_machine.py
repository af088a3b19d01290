"""Hypothesis looks for workers on one log that answer differently, or otherwise than the log says.

Their connections delay, repeat and break; the log is trimmed and loses its newest entries; its clock is set back and
forward; workers are stopped and started. The truth is a fold from nothing of what the log has.
"""

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec import Raw

from purgatory_async.cluster import LogError
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.results import Dropped
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.testing import VirtualTimeLoop
from tests.cluster.faulty import ANSWER, REQUEST
from tests.durable.log_workers import Store, Worker, settled
from tests.machines import explore

MOST_WORKERS = 4
DURATIONS = st.sampled_from((0, 1, 300, 1700, 300_000, 3_000_000, 7_000_000, 60_000_000))
NAPS = st.sampled_from((0.0, 0.001, 0.01, 0.3, 1.0, 6.0, 30.0))
KEYS, QUEUES = st.sampled_from(("k1", "k2")), st.sampled_from(("q1", "q2"))
WHICH = st.integers(0, MOST_WORKERS - 1)


class Truth:
    """The running digests and results of an epoch, from a fold from nothing."""

    def __init__(self, history):
        self.history = history
        self.fold = Fold()
        self.digests = [self.fold.running]
        self.results = [None]

    def catch_up(self):
        for entry in self.history[self.fold.position :]:
            result, _ = self.fold.apply(entry.position, entry.at_us, codec.decode(entry.data))
            self.digests.append(self.fold.running)
            self.results.append(result)


class Proposal:
    """An entry with a mark that no other one has, and the task that proposes it."""

    def __init__(self, mark, task):
        self.mark = mark
        self.task = task


class Workers(RuleBasedStateMachine):
    """Workers on one store."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.truths = {}
        self.workers = []
        self.proposals = []
        self.reads = []
        self.numbers = iter(range(1_000_000))

    def run(self, coroutine):
        return self.runner.run(coroutine)

    @initialize(count=st.integers(2, 3))
    def begin(self, count):
        async def begin():
            self.store = Store()
            for _ in range(count):
                await self.start_one()

        self.run(begin())

    async def start_one(self):
        worker = Worker(self.store)
        await worker.start()
        self.workers.append(worker)

    def truth(self, epoch):
        known = self.truths.setdefault(epoch, Truth(self.store.history[epoch]))
        known.catch_up()
        return known

    # What clients do.

    def propose(self, which, entry, mark):
        worker = self.workers[which % len(self.workers)]

        async def propose():
            task = asyncio.ensure_future(at_last(worker.state.propose(entry, Guard())))
            await asyncio.sleep(0)
            self.proposals.append(Proposal(mark, task))

        self.run(propose())

    @rule(which=WHICH, key=KEYS, timeout=st.none() | DURATIONS)
    def submit(self, which, key, timeout):
        name = f"o{next(self.numbers)}"
        self.propose(which, kinds.SubmitOperation(id=name, keys=(key,), timeout_us=timeout), f'"{name}"')

    @rule(which=WHICH, key=KEYS)
    def signal(self, which, key):
        mark = f'"s{next(self.numbers)}"'
        self.propose(which, kinds.SignalKey(key=key, value=Raw(mark.encode())), mark)

    @rule(which=WHICH, queue=QUEUES)
    def put(self, which, queue):
        mark = f'"i{next(self.numbers)}"'
        self.propose(which, kinds.PutItem(queue=queue, item=Raw(mark.encode()), delay_us=0), mark)

    @rule(which=WHICH, queue=QUEUES, lease=DURATIONS, wait=DURATIONS)
    def want(self, which, queue, lease, wait):
        name = f"l{next(self.numbers)}"
        self.propose(
            which,
            kinds.WantItem(queue=queue, lease_id=name, lease_us=lease, wait_us=wait, max=1),
            f'"{name}"',
        )

    @rule(which=WHICH)
    def read(self, which):
        """A read shows at least what was answered before it, by any worker."""
        worker = self.workers[which % len(self.workers)]
        answers = [proposal.task.result() for proposal in self.proposals if answered(proposal)]
        least = max((answer.position for answer in answers if answer.epoch == self.store.epoch), default=0)

        async def read(epoch):
            await worker.state.caught_up()
            assert epoch != self.store.epoch or worker.state.position >= least

        async def start():
            self.reads.append(asyncio.ensure_future(read(self.store.epoch)))

        self.run(start())

    @rule(seconds=NAPS)
    def nap(self, seconds):
        self.run(asyncio.sleep(seconds))

    # What goes wrong.

    @rule(
        which=WHICH,
        late_s=st.sampled_from((0.0, 0.01, 0.7)),
        deaf_s=st.sampled_from((0.0, 0.01, 2.0)),
        losses=st.lists(st.sampled_from((REQUEST, ANSWER)), max_size=3),
        away=st.integers(0, 4).map(lambda number: number == 4),
    )
    def disturb(self, which, late_s, deaf_s, losses, away):
        log = self.workers[which % len(self.workers)].log
        log.late_s, log.deaf_s, log.away = late_s, deaf_s, away
        log.losses.extend(losses)

    @rule(which=WHICH, answer_s=st.sampled_from((0.0, 0.4)))
    def answer_late(self, which, answer_s):
        self.workers[which % len(self.workers)].log.answer_s = answer_s

    @rule(which=WHICH)
    def cut(self, which):
        async def cut():
            self.workers[which % len(self.workers)].log.cut()

        self.run(cut())

    @rule(which=WHICH, keep=st.sampled_from((0, 5, 1000)))
    def save(self, which, keep):
        state = self.workers[which % len(self.workers)].state
        fold, here = state.fold, state.epoch == self.store.epoch
        whole = not state._steps.busy  # a fold whose step is half done cannot be read
        if here and whole and fold.position > self.store.checkpoint:

            async def save():
                self.store.checkpoint_of(fold, keep)

            self.run(save())

    @rule(count=st.integers(1, 6))
    def lose(self, count):
        newest_saved = max(self.store.checkpoint, self.store.trimmed)

        async def lose():
            self.store.lose(min(count, self.store.position - newest_saved))

        self.run(lose())

    @rule(step_us=st.sampled_from((-7_000_000, -1000, 1000, 7_000_000)))
    def set_clock(self, step_us):
        self.store.origin_us += step_us

    @rule(which=WHICH)
    @precondition(lambda self: len(self.workers) > 1)
    def stop(self, which):
        self.run(self.workers.pop(which % len(self.workers)).stop())

    @rule()
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def start(self):
        self.run(self.start_one())

    # What must hold.

    @invariant()
    def states_are_those_of_the_log(self):
        for worker in self.workers:
            truth = self.truth(worker.state.epoch)
            position = worker.state.position
            assert position <= truth.fold.position
            if worker.state.connected and not worker.state._steps.busy:
                assert truth.digests[position] == worker.fold.running
            assert worker.stopped is None or not worker.stopped.done(), worker.stopped

    @invariant()
    def answers_follow_from_the_log(self):
        for proposal in self.proposals:
            if answered(proposal):
                answer = proposal.task.result()
                truth = self.truth(answer.epoch)
                assert truth.results[answer.position] == answer.result
                assert proposal.mark.encode() in truth.history[answer.position - 1].data

    def teardown(self):
        try:
            if self.workers:
                self.run(self.end())
        finally:
            for worker in self.workers:
                self.run(worker.stop())
            for truth in self.truths.values():
                truth.fold.close()
            self.runner.close()

    async def end(self):
        for worker in self.workers:
            worker.log.late_s = worker.log.answer_s = worker.log.deaf_s = 0.0
            worker.log.away = False
            worker.log.losses.clear()
        await asyncio.sleep(20)
        await settled(*self.workers)
        fresh = Worker(self.store)  # from the newest checkpoint
        await fresh.state.open()
        await fresh.state.settled()
        truth = self.truth(self.store.epoch)  # from nothing
        at_the_end = [each for each in (fresh, *self.workers) if each.state.position == truth.fold.position]
        assert fresh in at_the_end
        assert {each.digest() for each in at_the_end} == {digest(truth.fold)}
        await fresh.stop()
        await asyncio.gather(*self.reads, return_exceptions=True)
        for read in self.reads:
            error = read.exception()
            assert error is None or isinstance(error, LogError), error
        self.each_takes_effect_once(truth)
        for worker in self.workers:
            await worker.stop()
            # After a loss a worker may hear of another state before it hears of the loss; it loads its own again.
            assert worker.state.recovery.diverged == 0 or len(self.truths) > 1
        await asyncio.gather(*(proposal.task for proposal in self.proposals), return_exceptions=True)

    def each_takes_effect_once(self, truth):
        effective = [
            entry.data
            for entry, result in zip(truth.history, truth.results[1:], strict=True)
            if not isinstance(result, Dropped)
        ]
        for proposal in self.proposals:
            times = sum(proposal.mark.encode() in data for data in effective)
            assert times <= 1
            if answered(proposal) and proposal.task.result().epoch == self.store.epoch:
                assert times == 1


def answered(proposal):
    return proposal.task.done() and not proposal.task.cancelled() and proposal.task.exception() is None


def test_workers_on_one_log_agree_with_it():
    explore(Workers, examples=15, steps=25)


@pytest.mark.slow
def test_workers_on_one_log_agree_with_it_for_long():
    explore(Workers, examples=300, steps=80)
