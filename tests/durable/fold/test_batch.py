"""A batch of signals that an operation counts at once, against the same signals one by one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from purgatory_async.durable.documents import CountNeed, SignalView
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.needs import need_for
from purgatory_async.durable.fold.signalled import SignalledOperation
from purgatory_async.durable.fold.signals import Signal

KEYS = ("a", "b", "c", "d")
needs = st.sampled_from(("any", "all", *[CountNeed(amount=n) for n in (1, 7, 40)], CountNeed(voters=3)))
few = st.sampled_from(("x", "y", "z", UNSET))
many = st.integers(0, 150).map(str)
signals = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 4), few | many), min_size=1, max_size=120)
watched = st.lists(st.sampled_from(KEYS), min_size=1, unique=True).map(tuple)


class Nothing:
    newest, index = None, 0


def made(found, first=1):
    return [
        Signal(SignalView(key, index, voter=voter), amount)
        for index, (key, amount, voter) in enumerate(found, first)
    ]


def state(operation):
    return [view.index for view in operation.signals], operation.need.progress, operation.need.waiting_for()


@given(needs, watched, st.lists(signals, min_size=1, max_size=3))
def test_a_batch_counts_as_its_signals_one_by_one(wire, keys, batches):
    one, other = (
        SignalledOperation(Nothing, keys, need_for(wire, keys), None, submitted=0) for _ in range(2)
    )
    first = 1
    for found in batches:
        ours = [signal for signal in made(found, first) if signal.view.key in keys]
        batch = Batch(made(found, first))
        first += len(found)
        if ours:
            expected = next((signal.view.index for signal in ours if one.note(signal)), None)
            end = other.take(batch)
            assert (end and end.view.index) == expected
            assert state(one) == state(other)
            if expected is not None:
                return


def test_operations_with_the_same_keys_share_the_work_on_a_batch():
    batch = Batch(made([(key, 1, UNSET) for key in "abcab"]))
    assert batch.on(("a", "x", "b")) is batch.on(("a", "b"))
    assert batch.on(("a", "b", "c")).signals == batch.on(("c", "b", "a")).signals


def test_a_batch_remembers_few_combinations_of_keys():
    names = [f"k{number}" for number in range(200)]
    batch = Batch(made([(name, 1, UNSET) for name in names]))
    for before, name in pairwise(names):
        assert [signal.view.key for signal in batch.on((before, name)).signals] == [before, name]
    assert len(batch._parts) <= 64
