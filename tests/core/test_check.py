"""`check_and_complete`: the operations that watch a key, asked again."""

import pytest

from purgatory_async import DelayedOperation, Outcome
from tests.core.recording import Recorded, Switch


@pytest.fixture(params=[None, 99], ids=["all", "limited"])
def check(request, purgatory):
    """A check of a key that asks all who watch it; a limit that is not reached takes another way there."""
    return lambda key: purgatory.check_and_complete(key, limit=request.param)


def watch(purgatory, log, names, holds, keys=("k",)):
    operations = [Recorded(log, name, holds=holds) for name in names]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, keys)
    log.clear()
    return operations


def test_an_unknown_key_completes_none(purgatory, check):
    assert check("unwatched") == 0
    assert purgatory.keys == 0


def test_it_returns_how_many_it_completed(purgatory, check):
    switch = Switch()
    watch(purgatory, [], "ab", switch)
    never = watch(purgatory, [], "c", None)
    assert check("k") == 0
    switch.on = True
    assert check("k") == 2
    assert check("k") == 0
    assert list(purgatory.operations()) == never
    purgatory.cancel_for_key("k")


def test_all_checks_run_oldest_first_before_all_hooks(purgatory, check):
    log: list[str] = []
    switch = Switch()
    watch(purgatory, log, "abc", switch)
    switch.on = True
    check("k")
    checks = ["a checked", "b checked", "c checked"]
    assert log == [*checks, "a completed", "b completed", "c completed"]


def test_only_the_operations_of_the_key_are_asked(purgatory, check):
    log: list[str] = []
    watch(purgatory, log, "a", None, ["k"])
    watch(purgatory, log, "b", None, ["l"])
    check("l")
    assert log == ["b checked"]
    purgatory.close()


def test_one_that_completes_leaves_its_other_keys_too(purgatory, check):
    switch = Switch()
    watch(purgatory, [], "a", switch, ["k", "l", "m"])
    switch.on = True
    assert check("l") == 1
    assert (purgatory.pending, purgatory.watched, purgatory.keys) == (0, 0, 0)
    assert check("k") == 0


def test_an_operation_watched_by_a_hook_is_not_in_the_walk(purgatory, check):
    log: list[str] = []
    switch = Switch()
    late = Recorded(log, "late", holds=lambda: switch.on and log.count("late checked") > 1)
    first = Recorded(log, "first", holds=switch, then=lambda: purgatory.try_complete_else_watch(late, ["k"]))
    purgatory.try_complete_else_watch(first, ["k"])
    switch.on = True
    assert check("k") == 1
    assert log.count("late checked") == 1  # its own, when it was watched
    assert late.outcome is None
    assert check("k") == 1


@pytest.mark.parametrize("error", [KeyError, RecursionError, StopIteration, GeneratorExit, MemoryError])
def test_a_raising_check_fails_only_its_own_operation(error, purgatory, check):
    switch = Switch()
    exception = error("check")

    def fails() -> bool:
        if switch():
            raise exception
        return False

    good = watch(purgatory, [], "ab", switch)
    bad = watch(purgatory, [], "x", fails)
    good += watch(purgatory, [], "cd", switch)
    switch.on = True
    assert check("k") == 4
    assert [operation.outcome for operation in good] == [Outcome.COMPLETED] * 4
    assert bad[0].outcome is Outcome.FAILED
    assert bad[0].exception is exception


def test_an_interrupt_in_a_check_propagates_and_keeps_it_pending(purgatory, check):
    switch = Switch()

    def interrupts() -> bool:
        if switch():
            raise KeyboardInterrupt
        return False

    log: list[str] = []
    watch(purgatory, log, "a", switch)
    stays = watch(purgatory, log, "x", interrupts)
    switch.on = True
    with pytest.raises(KeyboardInterrupt):
        check("k")
    assert "a completed" in log
    assert list(purgatory.operations()) == stays
    purgatory.check_invariants()
    assert purgatory.cancel_for_key("k") == stays


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda operation: operation.cancel(), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda operation: operation.fail(KeyError("k")), Outcome.FAILED, id="failed"),
    ],
)
def test_one_that_ends_otherwise_in_its_check_is_not_counted(end, outcome, purgatory, check):
    switch = Switch()

    class Ending(DelayedOperation[None]):
        def try_complete(self) -> bool:
            return switch() and end(self)

    operation = Ending()
    purgatory.try_complete_else_watch(operation, ["k"])
    switch.on = True
    assert check("k") == 0
    assert operation.outcome is outcome


def test_the_outcome_counts_not_what_the_check_returned(purgatory, check):
    switch = Switch()

    class Modest(DelayedOperation[None]):
        def try_complete(self) -> bool:
            if switch():
                self.force_complete()
            return False

    class Boasting(DelayedOperation[None]):
        def try_complete(self) -> bool:
            return True

    boasting = Boasting()
    purgatory.try_complete_else_watch(Modest(), ["k"])
    with pytest.warns(RuntimeWarning, match="force_complete"):
        purgatory.try_complete_else_watch(boasting, ["k"])
    switch.on = True
    assert check("k") == 1
    assert list(purgatory.operations()) == [boasting]
    boasting.cancel()


def test_one_that_another_check_has_ended_is_not_asked(purgatory, check):
    log: list[str] = []
    switch = Switch()
    victim = Recorded(log, "victim", holds=lambda: False)
    killer = Recorded(log, "killer", holds=lambda: switch() and victim.cancel() and False)
    purgatory.try_complete_else_watch(killer, ["k"])
    purgatory.try_complete_else_watch(victim, ["k"])
    switch.on = True
    log.clear()
    assert check("k") == 0
    assert log == ["killer checked"]
    assert victim.outcome is Outcome.CANCELLED
    killer.cancel()


def test_the_check_that_takes_the_only_token_completes_alone(purgatory, check):
    tokens = [1]
    taken = [
        Recorded([], str(number), holds=lambda: bool(tokens) and bool(tokens.pop())) for number in range(3)
    ]
    tokens.clear()
    for operation in taken:
        purgatory.try_complete_else_watch(operation, ["token"])
    tokens.append(1)
    assert check("token") == 1
    assert [operation.outcome for operation in taken] == [Outcome.COMPLETED, None, None]
    purgatory.cancel_for_key("token")


def test_a_key_that_cannot_be_hashed_is_refused(check):
    with pytest.raises(TypeError, match="unhashable"):
        check([])
