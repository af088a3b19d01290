"""`check_and_complete(key, limit=...)`: the oldest are asked until so many have completed, the others are not."""

from itertools import islice

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.core.watch_lists import in_turn
from purgatory_async.events import KeySignalled, OperationEnded
from tests.core.recording import Recorded, Switch


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def switch() -> Switch:
    """Turned off while they are watched; a test turns it on before it checks."""
    return Switch()


def watch(purgatory, log, names, holds, keys=("k",)):
    operations = [Recorded(log, name, holds=holds) for name in names]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, keys)
    log.clear()
    return operations


def asked(log) -> list[str]:
    return [line.removesuffix(" checked") for line in log if line.endswith(" checked")]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_the_oldest_complete_and_the_others_are_not_checked(limit, purgatory, log, switch):
    operations = watch(purgatory, log, "abcd", switch)
    switch.on = True
    assert purgatory.check_and_complete("k", limit=limit) == limit
    assert asked(log) == list("abcd"[:limit])
    assert [operation.outcome for operation in operations] == (
        [Outcome.COMPLETED] * limit + [None] * (4 - limit)
    )
    assert list(purgatory.operations("k")) == operations[limit:]
    purgatory.cancel_for_key("k")


def test_those_that_do_not_complete_do_not_count(purgatory, log, switch):
    watch(purgatory, log, "ab", None)
    watch(purgatory, log, "c", switch)
    watch(purgatory, log, "d", None)
    watch(purgatory, log, "ef", switch)
    log.clear()
    switch.on = True
    assert purgatory.check_and_complete("k", limit=2) == 2
    assert asked(log) == list("abcde")
    purgatory.cancel_for_key("k")


def test_again_and_again_it_goes_on_with_the_next_oldest(purgatory, log, switch):
    watch(purgatory, log, "abcde", switch)
    switch.on = True
    assert [purgatory.check_and_complete("k", limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert asked(log) == list("abcde")


@pytest.mark.parametrize("limit", [3, 4, 10**30, None])
def test_with_room_for_all_it_asks_them_all(limit, purgatory, log, switch):
    watch(purgatory, log, "a", None)
    watch(purgatory, log, "bcd", switch)
    watch(purgatory, log, "e", None)
    log.clear()
    assert purgatory.check_and_complete("k", limit=limit) == 0
    assert asked(log) == list("abcde")
    log.clear()
    switch.on = True
    assert purgatory.check_and_complete("k", limit=limit) == 3
    assert asked(log) == (list("abcd") if limit == 3 else list("abcde"))
    purgatory.cancel_for_key("k")


@pytest.mark.parametrize(("holds", "completed"), [(True, 1), (False, 0)])
def test_a_sole_watcher_is_asked(holds, completed, purgatory, log, switch):
    (operation,) = watch(purgatory, log, "a", switch)
    switch.on = holds
    assert purgatory.check_and_complete("k", limit=1) == completed
    assert asked(log) == ["a"]
    operation.cancel()


def test_of_a_thousand_only_the_one_is_asked(purgatory, log, switch):
    operations = watch(purgatory, log, map(str, range(1000)), switch)
    switch.on = True
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert asked(log) == ["0"]
    assert purgatory.pending == 999
    assert purgatory.cancel_for_key("k") == operations[1:]


def test_each_of_a_thousand_is_checked_once_up_to_the_last(purgatory, log, switch):
    watch(purgatory, log, map(str, range(999)), None)
    watch(purgatory, log, ["last", "beyond"], switch)
    switch.on = True
    log.clear()
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert asked(log) == [*map(str, range(999)), "last"]
    purgatory.cancel_for_key("k")


def test_none_is_checked_twice_or_skipped_when_half_complete(purgatory, log, switch):
    for number in range(100):
        watch(purgatory, log, [str(number)], switch if number % 2 else None)
    switch.on = True
    log.clear()
    assert purgatory.check_and_complete("k", limit=40) == 40
    assert asked(log) == [str(number) for number in range(80)]
    assert [operation.name for operation in purgatory.operations("k")] == [
        *(str(number) for number in range(0, 80, 2)),
        *(str(number) for number in range(80, 100)),
    ]
    purgatory.cancel_for_key("k")


@pytest.mark.parametrize("ender", [0, 1, 3, 8])
@pytest.mark.parametrize(
    "doomed",
    [
        pytest.param([1], id="the next"),
        pytest.param([1, 2, 3], id="the next three"),
        pytest.param([2, 5, 8], id="some further on"),
        pytest.param([-1, 1, 3], id="one asked before, too"),
        pytest.param(list(range(1, 10)), id="all others"),
    ],
)
def test_those_that_the_check_of_another_has_ended_are_skipped(ender, doomed, purgatory, log, switch):
    operations: list[Recorded] = []
    doomed = [ender + offset for offset in doomed if 0 <= ender + offset < 20]

    def end_the_doomed() -> bool:
        if switch():
            for number in doomed:
                operations[number].cancel()
        return False

    for number in range(20):
        holds = end_the_doomed if number == ender else switch if number > ender else None
        operations += watch(purgatory, log, [str(number)], holds)
    switch.on = True
    log.clear()
    left = [number for number in range(20) if number <= ender or number not in doomed]
    assert purgatory.check_and_complete("k", limit=20) == sum(number > ender for number in left)
    assert asked(log) == [str(number) for number in left]
    assert [operations[number].outcome for number in doomed] == [Outcome.CANCELLED] * len(doomed)
    purgatory.cancel_for_key("k")


def test_one_completed_by_another_check_is_not_counted(purgatory, log, switch):
    operations: list[Recorded] = []
    operations += watch(purgatory, log, "a", lambda: switch() and operations[1].force_complete() and False)
    operations += watch(purgatory, log, "bcd", switch)
    switch.on = True
    log.clear()
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert asked(log) == ["a", "c"]
    assert [operation.outcome for operation in operations] == [
        None,
        Outcome.COMPLETED,
        Outcome.COMPLETED,
        None,
    ]
    purgatory.cancel_for_key("k")


def test_a_check_that_ends_all_watchers_of_the_key_ends_the_walk(purgatory, log, switch):
    operations: list[Recorded] = []

    def end_everybody() -> bool:
        return switch() and not [operation.cancel() for operation in operations]

    operations += watch(purgatory, log, "abc", end_everybody)
    switch.on = True
    assert purgatory.check_and_complete("k", limit=2) == 0
    assert asked(log) == ["a"]
    assert purgatory.keys == 0


def test_a_raising_check_does_not_count_and_the_next_is_checked(purgatory, log, switch):
    failure = KeyError("check")

    def fails() -> bool:
        if switch():
            raise failure
        return False

    bad = watch(purgatory, log, "ab", fails)
    good = watch(purgatory, log, "cd", switch)
    switch.on = True
    log.clear()
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert asked(log) == ["a", "b", "c"]
    assert [operation.exception for operation in bad] == [failure] * 2
    assert [operation.outcome for operation in good] == [Outcome.COMPLETED, None]
    purgatory.cancel_for_key("k")


def test_one_that_ends_otherwise_in_its_check_does_not_count(purgatory, log, switch):
    operations: list[Recorded] = []
    operations += watch(purgatory, log, "a", lambda: switch() and operations[0].cancel())
    operations += watch(purgatory, log, "bc", switch)
    switch.on = True
    assert purgatory.check_and_complete("k", limit=1) == 1
    assert [operation.outcome for operation in operations] == [Outcome.CANCELLED, Outcome.COMPLETED, None]
    purgatory.cancel_for_key("k")


@pytest.mark.parametrize("taken", [1, 2, 10, 100])
def test_to_take_the_first_few_looks_at_few(taken):
    looked: list[object] = []

    class Looked(dict[DelayedOperation[None], None]):
        def __iter__(self):
            for watcher in super().__iter__():
                looked.append(watcher)
                yield watcher

    watchers = [DelayedOperation() for _ in range(10_000)]
    assert list(islice(in_turn(Looked.fromkeys(watchers)), taken)) == watchers[:taken]
    assert len(looked) <= 8 * taken


def test_one_thing_goes_to_one_taker_the_oldest(purgatory):
    things: list[str] = []
    takers = [Recorded([], str(number), holds=lambda: bool(things)) for number in range(3)]
    for taker in takers:
        purgatory.try_complete_else_watch(taker, ["thing"])
    things.append("one")
    # Its condition only looks: it is the limit that keeps the others away.
    assert purgatory.check_and_complete("thing", limit=1) == 1
    assert [taker.outcome for taker in takers] == [Outcome.COMPLETED, None, None]
    purgatory.cancel_for_key("thing")


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        pytest.param(0, ValueError, "limit must be at least 1.*got 0", id="zero"),
        pytest.param(-1, ValueError, "limit must be at least 1.*got -1", id="negative"),
        pytest.param(True, TypeError, "limit.*bool", id="bool"),
        pytest.param(1.0, TypeError, "limit.*float", id="float"),
        pytest.param("1", TypeError, "limit.*str", id="str"),
    ],
)
def test_an_invalid_limit_is_refused_before_any_check(limit, error, message, purgatory, switch):
    log: list[str] = []
    (operation,) = watch(purgatory, log, "a", switch)
    switch.on = True
    for key in ("k", "unwatched"):
        with pytest.raises(error, match=message):
            purgatory.check_and_complete(key, limit=limit)
    assert log == []
    assert list(purgatory.operations()) == [operation]
    operation.cancel()


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_observer_gets_the_completed_count_once(limit, manual_clock, switch):
    events: list[object] = []

    class Diary:
        def notify(self, event) -> None:
            events.append(event)

    with_diary = Purgatory(timer=Timer(clock=manual_clock), observer=Diary())
    watch(with_diary, [], "abc", switch)
    switch.on = True
    events.clear()
    completed = with_diary.check_and_complete("k", limit=limit)
    assert completed == min(limit, 3)
    assert [type(event) for event in events] == [OperationEnded] * completed + [KeySignalled]
    assert (events[-1].key, events[-1].completed) == ("k", completed)
    with_diary.close()
