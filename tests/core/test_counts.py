"""`operations`, `pending`, `watched`, `keys`: exact after every step."""

import random
from collections import Counter

import pytest

from purgatory_async import DelayedOperation
from tests.core.recording import Recorded, Switch


def watch(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys)
    return operation


def counts(purgatory):
    return purgatory.pending, purgatory.watched, purgatory.keys


def test_counts_are_exact_after_every_step(purgatory, manual_clock):
    steps = []

    def note() -> None:
        steps.append(counts(purgatory))
        purgatory.check_invariants()

    note()
    first = watch(purgatory, "a")
    note()
    watch(purgatory, "a", "b", "b")
    note()
    watch(purgatory, "b", "c", "d", timeout=1)
    note()
    first.force_complete()
    note()
    manual_clock.advance(1)
    note()
    purgatory.cancel_for_key("a")
    note()
    assert steps == [(0, 0, 0), (1, 1, 1), (2, 3, 2), (3, 6, 4), (2, 5, 4), (1, 2, 2), (0, 0, 0)]


def test_a_key_whose_last_watcher_left_is_gone(purgatory):
    first, second = watch(purgatory, "k"), watch(purgatory, "k")
    first.cancel()
    assert purgatory.keys == 1
    second.cancel()
    assert purgatory.keys == 0
    assert list(purgatory.operations("k")) == []


def test_what_completes_at_once_never_counts(purgatory):
    seen = []
    operation = Recorded([], holds=lambda: seen.append(counts(purgatory)) or True)
    purgatory.try_complete_else_watch(operation, ["k"])
    assert seen == [(0, 0, 0)]
    assert counts(purgatory) == (0, 0, 0)


def test_operations_are_listed_oldest_first_with_or_without_key(purgatory):
    first, second, third = watch(purgatory, "b"), watch(purgatory, "a", "b"), watch(purgatory, "a")
    assert list(purgatory.operations()) == [first, second, third]
    assert list(purgatory.operations("a")) == [second, third]
    assert list(purgatory.operations("b")) == [first, second]
    assert list(purgatory.operations(key="unwatched")) == []
    purgatory.close()


@pytest.mark.parametrize("key", [pytest.param(None, id="of all"), pytest.param("k", id="of a key")])
def test_the_list_can_be_cut_to_the_oldest(key, purgatory):
    operations = [watch(purgatory, "k") for _ in range(4)]
    assert list(purgatory.operations(key, limit=2)) == operations[:2]
    assert list(purgatory.operations(key, limit=9)) == operations
    for limit, error in ((0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError)):
        with pytest.raises(error, match=f"limit must be .* got {limit if error is ValueError else ''}"):
            purgatory.operations(key, limit=limit)
    purgatory.close()


def test_finding_the_oldest_visits_no_other(purgatory):
    operations = [watch(purgatory, "k") for _ in range(9)]
    third = operations[2]
    third._newer, link = None, third._newer  # a walk that goes on from here fails
    assert list(purgatory.operations(limit=2)) == operations[:2]
    third._newer = link
    purgatory.close()


def test_watchers_per_key_are_counted_over_random_operations(purgatory):
    dice = random.Random(8)
    alive: list[DelayedOperation] = []
    for _ in range(500):
        if alive and dice.random() < 0.4:
            alive.pop(dice.randrange(len(alive))).cancel()
        else:
            alive.append(watch(purgatory, *dice.choices(range(9), k=dice.randint(1, 4))))
        watched = Counter(key for operation in alive for key in operation.keys)
        assert dict(purgatory.watchers()) == watched
        assert dict(purgatory.watchers([3, "unwatched", 5])) == {
            key: watched[key] for key in (3, 5) if watched[key]
        }
    purgatory.close()


def test_counting_the_watchers_bears_with_what_happens_meanwhile(purgatory):
    _, second, _ = (watch(purgatory, key) for key in "abc")
    counting = purgatory.watchers()
    assert next(counting) == ("a", 1)
    second.cancel()
    watch(purgatory, "c", "d")
    assert list(counting) == [("c", 2)]
    assert dict(purgatory.watchers()) == {"a": 1, "c": 2, "d": 1}
    purgatory.close()


@pytest.mark.parametrize("key", [pytest.param(None, id="of all"), pytest.param("k", id="of a key")])
def test_the_list_is_a_snapshot_of_the_call(key, purgatory):
    operations = [watch(purgatory, "k") for _ in range(4)]
    snapshot = purgatory.operations(key)
    assert next(snapshot) is operations[0]
    operations[1].cancel()
    late = watch(purgatory, "k")
    assert list(snapshot) == operations[1:]
    assert list(purgatory.operations(key)) == [operations[0], *operations[2:], late]
    purgatory.close()


def test_a_hook_reads_the_counts_of_a_walk_that_is_over(purgatory):
    seen = []
    switch = Switch()
    for _ in range(3):
        operation = Recorded([], holds=switch, then=lambda: seen.append(counts(purgatory)))
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    switch.on = True
    purgatory.check_and_complete("a")
    assert seen == [(0, 0, 0)] * 3


def test_keys_that_are_equal_are_one_key(purgatory):
    watch(purgatory, 1)
    watch(purgatory, True)
    watch(purgatory, 1.0)
    assert counts(purgatory) == (3, 3, 1)
    assert len(purgatory.cancel_for_key(1)) == 3


def test_it_keeps_its_name_and_limit_and_starts_open(purgatory):
    assert purgatory.name == "purgatory of the test"
    assert purgatory.closed is False
    assert "purgatory of the test" in repr(purgatory)


@pytest.mark.parametrize("key", [None, (), False, 0, "", ...])
def test_an_empty_looking_key_is_a_key_like_any_other(purgatory, key):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, [key])
    assert operation.keys == (key,)
    assert (list(purgatory.operations(key)), purgatory.keys) == ([operation], 1)
    purgatory.check_invariants()
    assert purgatory.cancel_for_key(key) == [operation]
