"""What makes room in the fold, in which order, and for how long a signal counts."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from purgatory_async.durable.documents import CountNeed, KeyedSignal
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.entries import (
    EndOperation,
    SetLimits,
    SignalKey,
    SignalKeys,
    SubmitOperation,
)
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.items import Item, Queue
from purgatory_async.durable.fold.kept_bytes import KeptBytes
from purgatory_async.durable.fold.kept_signals import Key, Superseded
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.durable.fold.results import OVER_BUDGET
from purgatory_async.durable.fold.shared import Limits
from purgatory_async.service.settings.settings import Settings


def apply(fold, *entries):
    return [fold.apply(fold.position + 1, 1_000_000, entry)[0] for entry in entries]


def signalled(*keys, value=b"1"):
    return [SignalKey(key=key, value=Raw(value)) for key in keys]


def indexes(fold):
    return {key: [each.view.index for each in known.signals] for key, known in fold.signals.keys.items()}


def test_a_restarted_replica_drops_the_same_signals_for_room():
    """The first to be superseded leaves first, not the oldest, nor the first key's."""
    with closing(Fold()) as before:
        apply(before, *signalled("c", "a", "b", "a", "b", "c"), SetLimits(max_kept=5 * 129 + 3))
        assert indexes(before) == {"a": [4], "b": [3, 5], "c": [1, 6]}
        with closing(restored(parts(before))) as fold:
            apply(fold, SetLimits(max_kept=4 * 129 + 3))
            assert indexes(fold) == {"a": [4], "b": [5], "c": [1, 6]}
            assert fold.shared.kept.used == 4 * 129 + 3


def test_a_signal_that_a_pending_operation_shows_stays_counted():
    with closing(Fold()) as fold:
        apply(fold, SubmitOperation(id="op", keys=("k", "other"), need="all"))
        apply(fold, SignalKey(key="k", value=Raw(b"1" * 1000), voter="v"), *signalled("k"))
        kept = 128 + 6 + 1 + 1129 + 129
        assert fold.shared.kept.used == kept
        apply(fold, SetLimits(max_kept=kept - 1))
        assert indexes(fold) == {"k": [3]}
        assert (fold.shared.kept.used, fold.shared.kept.pinned) == (kept, kept)
        apply(fold, EndOperation(id="op", how="cancelled"))
        assert (fold.shared.kept.used, fold.shared.kept.pinned) == (kept, 130)


def test_history_of_one_signal_is_freed_with_its_last_holder():
    most = 2 * 129 + 1128 + 130
    with closing(Fold()) as fold:
        for name in ("a", "b"):
            apply(fold, SubmitOperation(id=name, keys=("k",)))
        apply(fold, *signalled("k", value=b"1" * 1000), *signalled("k"), SetLimits(max_kept=most))
        assert [*fold.operations.by_id] == ["a", "b"]
        apply(fold, SubmitOperation(id="c", keys=("k",)), EndOperation(id="c", how="cancelled"))
        # Forgetting the first of them frees its own bytes only.
        assert ([*fold.operations.by_id], indexes(fold)) == (["b", "c"], {"k": [3, 4]})


def test_an_id_leaves_before_an_operation_if_it_suffices():
    with closing(Fold()) as fold:
        apply(fold, SetLimits(max_kept=30_000))
        for name in ("a", "b", "c"):
            data = Raw(b"1" * 9_900)
            apply(fold, SubmitOperation(id=name, keys=("k",), data=data))
            apply(fold, EndOperation(id=name, how="cancelled"))
        assert ([*fold.operations.by_id], len(fold.operations.forgotten)) == (["b", "c"], 1)
        apply(fold, SubmitOperation(id="d", keys=("k",), data=Raw(b"1" * 9_800)))
        assert ([*fold.operations.by_id], len(fold.operations.forgotten)) == (["b", "c", "d"], 0)


def test_kept_answers_leave_last_within_their_share():
    most = 64 * 130
    with closing(Fold()) as fold:
        apply(fold, SetLimits(max_kept=most, retention_us=10**12))
        for number in range(100):
            name = f"{number:02}"
            apply(fold, SubmitOperation(id=name, keys=("k",)), EndOperation(id=name, how="cancelled"))
            apply(fold, SignalKey(key="k", idem=name))
        assert [name for (_, name), _, _ in fold.replays] == [f"{n:02}" for n in range(92, 100)]
        data = Raw(b"1" * (most - fold.shared.kept.pinned - 129))
        assert apply(fold, SubmitOperation(id="a", keys=("k",), data=data))[0].state == "pending"
        assert (len(fold.operations.forgotten), len(fold.replays)) == (0, 0)


@pytest.mark.parametrize("reload", [False, True])
def test_voters_are_counted_until_their_operation_ends(reload):
    fold = Fold()
    apply(fold, SetLimits(max_kept=20_000), SubmitOperation(id="a", keys=("k",), need=CountNeed(voters=90)))
    apply(fold, SubmitOperation(id="b", keys=("k", "l"), need=CountNeed(voters=90)))
    votes = [SignalKey(key="k", voter=f"{number:0100}") for number in range(30)]
    results = apply(fold, *votes)
    if reload:
        saved = [*parts(fold)]
        fold.close()
        fold = restored(saved)
    with closing(fold):
        counted = results.index(OVER_BUDGET)  # each pins its signal, and its name for both operations
        assert (counted, results[counted:]) == (28, [OVER_BUDGET] * 2)
        assert fold.shared.kept.pinned == 129 + 130 + 1 + counted * 3 * 228
        assert apply(fold, SignalKeys(signals=[KeyedSignal(key="k", voter="v" * 200)] * 2)) == [OVER_BUDGET]
        apply(fold, EndOperation(id="a", how="cancelled"))
        assert fold.shared.kept.pinned == 130 + 1 + counted * 2 * 228
        assert apply(fold, *votes[-2:])[-1].completed == 0
        apply(fold, EndOperation(id="b", how="cancelled"))
        assert fold.shared.kept.pinned == 1 + 228


def test_stale_turns_are_swept_and_never_taken():
    turns, keys = Superseded(), [Key([], 0) for _ in range(3)]
    for number in range(3000):
        turns.add(keys[number % 3])
    turns.left(keys[0], 1000)
    turns.left(keys[1], 999)
    assert len(turns._turns) == 1001
    taken = [turns.next() for _ in range(1001)]
    assert (taken.count(keys[1]), taken.count(keys[2]), turns.next()) == (1, 1000, None)


def test_a_new_state_has_the_budget_of_the_settings():
    assert Limits().max_kept == Settings().max_bytes


@given(st.lists(st.integers(0, 20), unique=True, min_size=1), st.integers(0, 5), st.data())
def test_a_queue_without_an_item_taken_back_is_in_order(places, taken, data):
    queue = Queue("q", KeptBytes())
    for place in places:
        item = Item(place, place, 0, place, 0, 0, Raw(b"1"))
        queue.weigh(item.size, None)
        queue.keep(item)
    queue.lift(queue.pick(min(taken, len(places) - 1)))
    left = {item.number for item in queue.ready}
    number = data.draw(st.sampled_from(sorted(left)))
    assert queue.take_back(number)
    assert not queue.take_back(number)
    assert queue.size == 129 * (len(left) - 1)
    assert [item.number for item in queue.pick(99)] == sorted(left - {number})
