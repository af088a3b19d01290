"""Operations that watch the same keys share one list; only the running time shows it."""

import itertools

import pytest

from purgatory_async import DelayedOperation, Outcome
from purgatory_async.core.watch_lists import SharedList
from tests.core.recording import Recorded, Switch

KEYS = ("a", "b", "c")


@pytest.fixture(autouse=True)
def emptied(purgatory):
    """Here it matters who is where, not how they end."""
    yield
    purgatory.close()


def watch(purgatory, *all_keys):
    operations = [DelayedOperation() for _ in all_keys]
    for operation, keys in zip(operations, all_keys, strict=True):
        assert not purgatory.try_complete_else_watch(operation, keys)
    purgatory.check_invariants()
    return operations


def lists(purgatory):
    return [type(purgatory._watchers[key]) for key in KEYS]


def test_the_same_keys_are_one_list(purgatory):
    operations = watch(purgatory, KEYS, list(KEYS), KEYS)
    assert purgatory._watchers["a"] is purgatory._watchers["b"] is purgatory._watchers["c"]
    assert (purgatory.pending, purgatory.watched, purgatory.keys) == (3, 9, 3)
    assert dict(purgatory.watchers()) == {"a": 3, "b": 3, "c": 3}
    for key in KEYS:
        assert list(purgatory.operations(key)) == operations


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("late", [(), ("c",), ("b", "x")])
def test_leaving_in_any_order_leaves_all_keys(purgatory, order, late):
    operations = watch(purgatory, KEYS, KEYS, KEYS)
    if late:
        operations += watch(purgatory, late)
    for place in order:
        assert operations[place].force_complete()
        purgatory.check_invariants()
        for key in KEYS:
            assert operations[place] not in purgatory.operations(key)
    assert (purgatory.pending, purgatory.watched) == ((1, len(late)) if late else (0, 0))


@pytest.mark.parametrize("other", [("a",), ("b",), ("b", "a"), ("a", "b"), ("c", "d"), ("a", "b", "c", "d")])
def test_one_with_other_keys_comes_last_and_removes_no_other(purgatory, other):
    first, second, third, fourth = watch(purgatory, KEYS, KEYS, other, KEYS)
    assert SharedList not in lists(purgatory)
    for key in KEYS:
        expected = [first, second, third, fourth] if key in other else [first, second, fourth]
        assert list(purgatory.operations(key)) == expected
    assert purgatory.complete_for_key(other[-1]) == (1 if other[-1] == "d" else 4)
    purgatory.check_invariants()


def test_two_key_groups_with_a_common_key_are_distinguished(purgatory):
    groups = ("a", "b"), ("c", "d"), ("b", "c")
    operations = watch(purgatory, groups[0], groups[0], groups[1], groups[1], groups[2])
    assert list(purgatory.operations("b")) == [operations[0], operations[1], operations[4]]
    assert purgatory.cancel_for_key("c") == [operations[2], operations[3], operations[4]]
    assert list(purgatory.operations("a")) == operations[:2]
    purgatory.check_invariants()


def test_who_is_alone_on_some_of_the_keys_only_shares_nothing(purgatory):
    first, second, third = watch(purgatory, KEYS, ("b",), KEYS)
    assert lists(purgatory) == [dict, dict, dict]
    assert list(purgatory.operations("b")) == [first, second, third]
    assert list(purgatory.operations("a")) == [first, third]


@pytest.mark.parametrize("key", ["a", KEYS])
def test_several_on_one_key_and_no_other_are_a_list_too(purgatory, key):
    first, second, third = watch(purgatory, [key], (key,), [key])
    assert type(purgatory._watchers[key]) is SharedList
    fourth, fifth = watch(purgatory, (key, "b"), [key])
    assert type(purgatory._watchers[key]) is dict
    assert second.cancel()
    assert list(purgatory.operations(key)) == [first, third, fourth, fifth]
    assert purgatory.complete_for_key(key) == 4


def test_operations_on_one_tuple_share_it_with_their_list(purgatory):
    keys = tuple("abc")
    watch(purgatory, keys, keys)
    shared = purgatory._watchers["a"]
    assert shared.of is keys
    (third,) = watch(purgatory, keys)
    assert third._keys is shared


def test_the_same_keys_in_another_order_are_others(purgatory):
    first, second = watch(purgatory, KEYS, KEYS[::-1])
    assert lists(purgatory) == [dict, dict, dict]
    assert list(purgatory.operations("a")) == [first, second]


def test_keys_that_are_equal_are_the_same_and_each_shows_its_own(purgatory):
    operations = watch(purgatory, (1, 2), (True, 2.0), (1.0, 2))
    assert list(purgatory.operations(1)) == operations
    assert [str(operation.keys) for operation in operations] == ["(1, 2)", "(True, 2.0)", "(1.0, 2)"]


@pytest.mark.parametrize("shared", [False, True], ids=["never shared", "shared once"])
def test_no_keys_are_not_confused_with_an_emptied_list(purgatory, shared):
    if shared:
        watch(purgatory, KEYS, KEYS)
        assert purgatory.complete_for_key("a") == 2
    with pytest.raises(ValueError, match="at least one"):
        purgatory.try_complete_else_watch(DelayedOperation(), ())


def test_the_same_keys_share_a_list_again_after_it_emptied(purgatory):
    watch(purgatory, KEYS, KEYS)
    assert purgatory.complete_for_key("b") == 2
    assert (purgatory.pending, purgatory.watched, purgatory.keys) == (0, 0, 0)
    operations = watch(purgatory, KEYS, KEYS)
    assert list(purgatory.operations("c")) == operations


def test_a_tuple_key_is_not_confused_with_the_keys_it_holds(purgatory):
    first, second = watch(purgatory, [KEYS], KEYS)
    assert list(purgatory.operations(KEYS)) == [first]
    assert list(purgatory.operations("a")) == [second]


@pytest.mark.parametrize("before", [1, 2], ids=["not yet shared", "shared"])
def test_an_operation_equal_to_others_is_refused_alone(purgatory, before):
    class Alike(DelayedOperation):
        def __eq__(self, other):
            return True

        __hash__ = DelayedOperation.__hash__

    operations = watch(purgatory, *[KEYS] * before)
    with pytest.raises(TypeError, match="__eq__"):
        purgatory.try_complete_else_watch(Alike(), KEYS)
    purgatory.check_invariants()
    for key in KEYS:
        assert list(purgatory.operations(key)) == operations


@pytest.mark.parametrize("keys", [KEYS, ("a",), ("c", "d")])
def test_beside_one_that_equals_others_none_is_watched(purgatory, keys):
    class Alike(DelayedOperation):
        def __eq__(self, other):
            return True

        __hash__ = DelayedOperation.__hash__

    first = Alike()
    purgatory.try_complete_else_watch(first, KEYS)
    with pytest.raises(TypeError, match="Alike must not define __eq__"):
        purgatory.try_complete_else_watch(DelayedOperation(), keys)
    purgatory.check_invariants()
    assert [(each.keys, each.outcome) for each in purgatory.operations()] == [(KEYS, None)]
    assert dict(purgatory.watchers()) == dict.fromkeys(KEYS, 1)


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_a_check_on_one_key_removes_the_oldest_from_the_others(purgatory, limit):
    switch, log = Switch(), []
    operations = [Recorded(log, name, holds=switch) for name in "uvw"]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, KEYS)
    switch.on = True
    assert purgatory.check_and_complete("b", limit=limit) == (limit or 3)
    purgatory.check_invariants()
    assert list(purgatory.operations("c")) == operations[limit or 3 :]


def test_many_that_part_and_meet_again_are_counted_exactly(purgatory):
    for _ in range(3):
        operations = watch(purgatory, *[KEYS] * 50, ("b",), *[KEYS] * 50)
        assert purgatory.complete_for_key("b") == 101
        assert {operation.outcome for operation in operations} == {Outcome.COMPLETED}
        assert (purgatory.pending, purgatory.watched, purgatory.keys) == (0, 0, 0)
        purgatory.check_invariants()
