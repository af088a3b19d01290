"""Hypothesis looks for a log that two replicas, or a replica and the naive model, tell differently.

The log is a list that all replicas read, each as far as it has come. It has repetitions and unknown writers. Replicas
stop, and begin again at a checkpoint or from nothing.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import UNSET

from purgatory_async.durable.fold import (
    codec,
    kept_answers,
    kept_signals,
    operations,
    remembered,
    signal_rules,
)
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold import queues as folded_queues
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.items import Queue
from purgatory_async.durable.fold.log_clock import LogClock
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.durable.since import Wanted, kept_since
from tests.durable.fold.fold_model import Model
from tests.durable.fold.some_entries import (
    ENTRIES,
    LIMITS,
    OF_PROMISES,
    ON_A_LEASE,
    SIGNALS,
    START,
    TO_A_QUEUE,
    durations,
    writers,
)
from tests.machines import explore

STEPS = (0, 0, 1, 300, 999, 1000, 1700, 2000, 3_000, 50_000, 1_000_000, 6_000_000, 60_000_000, 600_000_000)

SHORT = (0, 0, 0, 1, 300, 999, 1000, 1700)


class Replica:
    """A fold, and how far it has read."""

    def __init__(self, fold, *, as_json):
        self.fold = fold
        self.as_json = as_json  # reads what a log keeps, not what its writer has


class Log(RuleBasedStateMachine):
    """The log, what the model says of each entry, and the replicas."""

    def __init__(self):
        super().__init__()
        self.log = []
        self.model = Model()
        self.facts = []  # by position
        self.digests = {}  # by position: of the state, and running
        self.checkpoints = []
        self.numbers = {}
        self.now = START
        self.replicas = []

    @initialize(count=st.integers(2, 4))
    def start(self, count):
        self.replicas = [Replica(Fold(), as_json=bool(number % 2)) for number in range(count)]
        for writer in ("w1", "w2"):
            self.append(0, kinds.Alive(writer=writer, number=1))
            self.numbers[writer] = 1

    def append(self, step, entry):
        self.now += step
        position = len(self.log) + 1
        self.log.append((position, self.now, entry))
        self.facts.append(self.model.apply(position, self.now, entry))
        self.read(self.replicas[0], 1)

    @rule(step=st.sampled_from(STEPS), age=st.integers(0, 20))
    def repeat(self, step, age):
        """An append whose outcome was unknown comes again, however late."""
        self.append(step, self.log[-1 - age % len(self.log)][2])

    @rule(which=st.integers(0, 3), count=st.integers(1, 12))
    def deliver(self, which, count):
        self.read(self.replicas[which % len(self.replicas)], count)

    @rule(which=st.integers(0, 3), size=st.sampled_from((1, 300, 1 << 20)))
    def save(self, which, size):
        self.checkpoints.append(list(parts(self.replicas[which % len(self.replicas)].fold, size)))

    @rule(which=st.integers(1, 3), age=st.integers(0, 5), nothing=st.booleans())
    def restart(self, which, age, nothing):
        """A replica that stopped begins at a checkpoint, of any replica and any age, or from nothing."""
        replica = self.replicas[which % len(self.replicas)]
        replica.fold.close()
        if nothing or not self.checkpoints:
            replica.fold = Fold()
        else:
            replica.fold = restored(self.checkpoints[-1 - age % len(self.checkpoints)])
        if replica is self.replicas[0]:
            self.read(replica, len(self.log))

    @rule()
    def restart_the_first(self):
        """The replica that reads everything at once goes on from its own checkpoint."""
        first = self.replicas[0]
        saved = list(parts(first.fold))
        first.fold.close()
        first.fold = restored(saved)
        assert list(parts(first.fold)) == saved

    def read(self, replica, count):
        begin = replica.fold.position
        for position, at_us, entry in self.log[begin : begin + count]:
            given = codec.decode(codec.encode(entry)) if replica.as_json else entry
            result, effects = replica.fold.apply(position, at_us, given)
            facts = [(type(effect).__name__, *effect.fact) for effect in effects]
            told = self.facts[position - 1]
            assert (result, facts) == told, f"at position {position}: {entry}: {result} {facts}, not {told}"
            found = digest(replica.fold), replica.fold.running
            assert self.digests.setdefault(position, found) == found, f"at position {position}"
            if position == len(self.log) and self.model.position == position:
                self.compare(replica.fold)

    def compare(self, fold):
        """Compare the state itself; the replica has applied what the model has."""
        model = self.model
        assert {name: one.state for name, one in fold.operations.by_id.items()} == {
            one.id: one.state for one in model.operations
        }
        assert [name for name, _, _ in fold.operations.forgotten] == [*model.forgotten]
        assert {name: until for name, until, _ in fold.operations.answers.ids} == {
            name: one.until for name, one in model.gone.items()
        }
        assert [taker.order.lease_id for taker in fold.queues.takers.values()] == [
            taker.lease_id for taker in model.takers
        ]
        assert [*fold.queues.leases] == [lease.id for lease in model.leases]
        kept = fold.shared.kept
        assert (kept.used, kept.pinned) == (model.used(), model.used(pinned=True))
        self.compare_queues(fold.queues)
        self.compare_promises(fold.operations)
        for one in model.operations:
            promise = fold.operations.by_id[one.id].promise
            # A gap may be told where nothing is missing, but never the other way round.
            assert (promise is not None and promise.gap) or not one.gap
            assert fold.operations.by_id[one.id].deadline_us == one.deadline
        assert {
            key: [signal.view.index for signal in known.signals] for key, known in fold.signals.keys.items()
        } == {key: [signal.index for signal in signals] for key, signals in model.by_key.items()}
        for key in ("k1", "k2", "k3"):
            self.compare_signals(fold, key)

    def compare_promises(self, operations):
        """What is counted step by step of questions and of kept answers is what there is."""
        answers, pending = operations.answers, sorted(operations.pending(), key=lambda one: one.position)
        ended, gone = answers.ended.by_name.values(), answers.ids.by_name.items()
        size = sum(one.size for _, one in ended) + sum(each.size(name) for name, (_, each) in gone)
        reserved = sum(one.promise.reserved for one in pending if one.promise is not None)
        assert (answers.size, operations.questions.reserved) == (size, reserved)
        assert [*operations.questions.waiting.values()] == [one for one in pending if one.asks]

    def compare_queues(self, queues):
        """Every item is ready, hidden, leased or dead in one place; a queue counts what it has."""
        model = self.model
        ready = [(item.number, name) for name, each in queues.by_name.items() for item in each.ready]
        hidden = [(number, name) for name, each in queues.by_name.items() for number in each.hidden]
        assert sorted(ready, key=str) == sorted(
            ((item.number, item.queue) for item in model.items if item.until is None), key=str
        )
        assert sorted(hidden, key=str) == sorted(
            ((item.number, item.queue) for item in model.items if item.until is not None), key=str
        )
        assert (queues.kept, queues.hidden_ones, queues.dead) == (len(model.items), len(hidden), model.dead)
        for name in ("q1", "q2", "q1.dead", "q2.dead", "q1.dead.dead"):
            queue = queues.by_name.get(name) or Queue(name)
            leased = [lease for lease in model.leases if lease.queue == name]
            assert [item.number for item in queue.in_order()] == [item.number for item in model.ready(name)]
            assert (queue.leased, queue.takers) == (
                len(leased),
                sum(taker.queue == name for taker in model.takers),
            )
            texts = [item.text for item in model.items if item.queue == name]
            texts += [lease.item.text for lease in leased]
            assert queue.size == sum(map(len, texts)) + 128 * (len(texts) + len(leased))
        assert all(not queue.idle for queue in queues.by_name.values())

    def compare_signals(self, fold, key):
        """Without a gap no signal is missing; what is shown is within the limits."""
        limits, whole = self.model.limits, self.now // 1000 * 1000
        ever = [signal for signal in self.model.signals if signal.key == key]
        by_key, by_prefix = Wanted((key,), ()), Wanted((), (key,))
        for since in {0, *[signal.index for signal in (*ever[:1], *ever[-3:])]}:
            missing = [signal.index for signal in ever if signal.index > since]
            for wanted in (by_key, by_prefix):
                found = kept_since(fold.signals, wanted, since, 10_000)
                assert found.gap or [signal.view.index for signal in found.signals] == missing
        shown = [signal.view.index for signal in kept_since(fold.signals, by_key, 0, 10_000).signals]
        assert len(shown) <= limits.keep_signals
        assert all(signal.at + limits.keep_for_us > whole for signal in ever if signal.index in shown)
        latest = fold.signals.latest(key)
        newest = ever[-1] if ever else None
        if latest is not None:
            assert latest.index == newest.index
            assert newest.at + limits.retention_us > whole
        elif newest is not None:  # what shorter limits dropped does not come back with longer ones
            gone = kept_since(fold.signals, by_key, newest.index - 1, 1).gap
            assert newest.at + limits.retention_us <= whole or gone

    def teardown(self):
        try:
            for replica in self.replicas:
                self.read(replica, len(self.log))
                assert digest(replica.fold) == self.digests[len(self.log)][0]
        finally:
            for replica in self.replicas:
                replica.fold.close()


class Replicas(Log):
    """A log of all kinds of entries."""

    @rule(
        batch=st.lists(st.tuples(st.sampled_from(STEPS), ENTRIES, writers), min_size=1, max_size=8),
        ticks=st.sampled_from((True, True, True, False)),
    )
    def write(self, batch, ticks):
        for step, entry, writer in batch:
            for _ in range(entry.positions - 1 if ticks else 0):
                self.append(0, kinds.Tick())
            if writer is not None:
                self.numbers[writer] = self.numbers.get(writer, 0) + 1
                entry.writer, entry.number = writer, self.numbers[writer]
            self.append(step, entry)


class ReplicasOfPromises(Log):
    """A log of operations that are asked, answered, moved and forgotten; some have little room."""

    @rule(
        batch=st.lists(
            st.tuples(st.sampled_from(STEPS), st.one_of(*OF_PROMISES, *SIGNALS)), min_size=1, max_size=8
        )
    )
    def promise(self, batch):
        for step, entry in batch:
            for _ in range(entry.positions - 1):
                self.append(0, kinds.Tick())
            self.append(step, entry)

    @rule(taker=st.integers(0, 2), wait=st.sampled_from((0, 3000, 60_000_000)))
    def take(self, taker, wait):
        lease = f"t{len(self.log)}"
        self.append(0, kinds.WantItem(queue=f"q{taker}", lease_id=lease, lease_us=1700, wait_us=wait, max=2))

    @rule(limits=LIMITS)
    def limit(self, limits):
        self.append(0, limits)


class ReplicasOfQueues(Log):
    """A log of one queue, its leases and its dead items, in which little time passes."""

    @rule(batch=st.lists(st.tuples(st.sampled_from(SHORT), TO_A_QUEUE), min_size=1, max_size=4))
    def change_a_queue(self, batch):
        for step, entry in batch:
            self.append(step, entry)

    @rule(
        step=st.sampled_from(SHORT),
        lease=durations | st.just(UNSET),
        wait=durations,
        most=st.integers(1, 3),
        idem=st.sampled_from((UNSET, UNSET, "i1", "i2")),
    )
    def take(self, step, lease, wait, most, idem):
        taker = kinds.WantItem(queue="q1", lease_id=f"t{len(self.log)}", max=most, idem=idem)
        taker.lease_us, taker.wait_us = lease, wait
        self.append(step, taker)

    @rule(step=st.sampled_from(SHORT), entry=ON_A_LEASE, nth=st.integers(0, 5))
    def change_a_lease(self, step, entry, nth):
        if self.model.leases:
            lease = self.model.leases[nth % len(self.model.leases)]
            entry.lease_id = lease.taker if isinstance(entry, kinds.LeaveLine) else lease.id
            self.append(step, entry)


@pytest.fixture
def finest(monkeypatch):
    """A break wherever there can be one."""
    for module in (kept_answers, kept_signals, operations, folded_queues, remembered):
        monkeypatch.setattr(module, "AT_ONCE", 1)
    monkeypatch.setattr(signal_rules, "FEW", 0)
    monkeypatch.setattr(LogClock, "slice", 1)


SHORT_STORIES = (
    (Replicas, 60, 10),
    (Replicas, 15, 50),
    (ReplicasOfQueues, 40, 40),
    (ReplicasOfPromises, 60, 15),
)
LONG_STORIES = (
    (Replicas, 250, 10),
    (Replicas, 200, 50),
    (ReplicasOfQueues, 150, 40),
    (ReplicasOfPromises, 400, 20),
)


@pytest.mark.parametrize(
    ("machine", "examples", "steps"),
    [*SHORT_STORIES, *(pytest.param(*story, marks=pytest.mark.slow) for story in LONG_STORIES)],
)
def test_replicas_agree_with_each_other_and_the_model(machine, examples, steps):
    explore(machine, examples=examples, steps=steps)


@pytest.mark.usefixtures("finest")
@pytest.mark.parametrize(
    ("machine", "examples", "steps"),
    [
        (Replicas, 15, 40),
        (ReplicasOfQueues, 10, 40),
        (ReplicasOfPromises, 15, 20),
        pytest.param(Replicas, 300, 50, marks=pytest.mark.slow),
    ],
)
def test_breaks_change_nothing_of_what_a_step_gives(machine, examples, steps):
    explore(machine, examples=examples, steps=steps)
