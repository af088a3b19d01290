"""`complete_for_key`, `fail_for_key`, `cancel_for_key`: end all operations on a key, without a check."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, Outcome
from purgatory_async.testing import settle
from tests.core.recording import Recorded

ERROR = KeyError("lost")

VERBS = [
    pytest.param(lambda p, key: p.complete_for_key(key, "all"), 3, Outcome.COMPLETED, id="complete_for_key"),
    pytest.param(lambda p, key: p.fail_for_key(key, ERROR), 3, Outcome.FAILED, id="fail_for_key"),
    pytest.param(lambda p, key: len(p.cancel_for_key(key)), 3, Outcome.CANCELLED, id="cancel_for_key"),
]


@pytest.mark.parametrize(("verb", "ended", "outcome"), VERBS)
def test_a_verb_ends_and_counts_all_of_a_key_without_a_check(verb, ended, outcome, purgatory):
    log: list[str] = []
    operations = [Recorded(log, holds=lambda: False) for _ in range(3)]
    other = DelayedOperation()
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.try_complete_else_watch(other, ["l"])
    log.clear()
    assert verb(purgatory, "k") == ended
    assert [operation.outcome for operation in operations] == [outcome] * 3
    assert "op checked" not in log
    assert list(purgatory.operations()) == [other]
    other.cancel()


@pytest.mark.parametrize(("verb", "ended", "outcome"), VERBS)
def test_a_verb_removes_them_from_other_keys_and_the_timer(verb, ended, outcome, purgatory):
    for number in range(3):
        purgatory.try_complete_else_watch(DelayedOperation(60), ["k", "shared", number])
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == (3, 9, 5, 3)
    assert verb(purgatory, "shared") == ended
    assert (purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending) == (0, 0, 0, 0)


@pytest.mark.parametrize(("verb", "ended", "outcome"), VERBS)
def test_a_verb_for_an_unknown_key_ends_none(verb, ended, outcome, purgatory):
    assert verb(purgatory, "unwatched") == 0
    assert purgatory.keys == 0


@pytest.mark.parametrize(("verb", "ended", "outcome"), VERBS)
def test_a_verb_refuses_a_key_that_cannot_be_hashed(verb, ended, outcome, purgatory):
    with pytest.raises(TypeError, match="unhashable"):
        verb(purgatory, [])


@pytest.mark.parametrize(("verb", "ended", "outcome"), VERBS)
@pytest.mark.asyncio
async def test_a_verb_ends_a_wait_with_until_too(verb, ended, outcome, purgatory):
    asked: list[bool] = []
    task = asyncio.create_task(purgatory.wait("k", until=lambda: asked.append(True)))
    await settle()
    assert verb(purgatory, "k") == 1
    await asyncio.wait([task])
    assert task.done()
    assert asked == [True]
    assert (task.exception() is None) is (outcome is Outcome.COMPLETED)


def test_complete_for_key_gives_its_result_to_each(purgatory):
    operations = [DelayedOperation() for _ in range(2)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.complete_for_key("k", "r")
    assert [operation.result for operation in operations] == ["r", "r"]


@pytest.mark.parametrize("result", [pytest.param(0, id="zero"), pytest.param("", id="empty")])
def test_a_falsy_result_is_a_result(result, purgatory):
    operation = DelayedOperation()
    operation.result = "before"
    purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.complete_for_key("k", result)
    assert operation.result == result


def test_fail_for_key_gives_its_exception_to_each(purgatory):
    operations = [DelayedOperation() for _ in range(2)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.fail_for_key("k", ERROR)
    assert [operation.exception for operation in operations] == [ERROR, ERROR]


def test_fail_for_key_refuses_a_non_exception_and_ends_nothing(purgatory):
    operation = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["k"])
    with pytest.raises(TypeError, match="exception instance"):
        purgatory.fail_for_key("k", "lost")
    assert operation.outcome is None
    operation.cancel()


def test_cancel_for_key_returns_those_it_ended_oldest_first(purgatory):
    operations = [DelayedOperation() for _ in range(5)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    operations.pop(2).cancel()
    assert purgatory.cancel_for_key("k") == operations
    assert purgatory.cancel_for_key("k") == []


def test_a_verb_does_not_end_operations_watched_by_its_hooks(purgatory):
    late = DelayedOperation()
    first = Recorded([], then=lambda: purgatory.try_complete_else_watch(late, ["k"]))
    purgatory.try_complete_else_watch(first, ["k"])
    assert purgatory.complete_for_key("k") == 1
    assert late.outcome is None
    late.cancel()


def test_hooks_run_after_all_of_the_key_have_ended(purgatory):
    outcomes = []
    operations = [
        Recorded([], then=lambda: outcomes.append([o.outcome for o in operations])) for _ in range(2)
    ]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.complete_for_key("k")
    assert outcomes == [[Outcome.COMPLETED] * 2] * 2
