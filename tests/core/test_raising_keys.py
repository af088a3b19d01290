"""Keys whose comparison raises: watching is all or nothing, leaving cannot be refused, and no list is torn."""

import sys

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryFull, Timer
from purgatory_async.testing import ManualClock, assert_clean
from tests.core.recording import errors_without_loop


class TouchyError(Exception):
    """A comparison was one too many."""


class Touchy:
    """A key that is equal by its name; all have one hash, so that each lookup compares."""

    left = sys.maxsize  # how many comparisons do not raise
    once = True
    error: type[BaseException] = TouchyError

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 7

    def __eq__(self, other):
        Touchy.left -= 1
        if Touchy.left < 0:
            Touchy.left = sys.maxsize if Touchy.once else 0
            raise Touchy.error(self.name)
        return self.name == other.name

    def __repr__(self):
        return self.name


@pytest.fixture(params=[True, False], ids=["once", "from then on"])
def arm(request, monkeypatch):
    """Let the comparison after ``quiet`` others raise, or that and each one after it."""
    monkeypatch.setattr(Touchy, "once", request.param)
    monkeypatch.setattr(Touchy, "left", sys.maxsize)

    def arm(quiet):
        Touchy.left = quiet

    return arm


def disarm():
    """Stop all of them from raising."""
    Touchy.left = sys.maxsize


def keys(names):
    return tuple(map(Touchy, names))


class World:
    """A purgatory in which some operations watch keys, written as words: each letter is a key."""

    def __init__(self, *words, timer=None):
        self.purgatory = Purgatory(timer=timer or Timer(clock=ManualClock()))
        self.operations = [self.watch(word) for word in words]

    def watch(self, word, operation=None):
        operation = operation or DelayedOperation(60)
        self.purgatory.try_complete_else_watch(operation, keys(word))
        return operation

    def listed(self):
        """What can be found under each key, and the counts; all lists are looked at."""
        purgatory = self.purgatory
        purgatory.check_invariants()
        pending = list(purgatory.operations())
        names = {key.name for operation in pending for key in operation.keys}
        for name in names:
            (key,) = keys(name)
            watching = [each for each in pending if key in each.keys]
            found = list(purgatory.operations(key))
            assert sorted(map(id, found)) == sorted(map(id, watching)), name
        pairs = sum(len(operation.keys) for operation in pending)
        assert (purgatory.pending, purgatory.watched, purgatory.keys) == (len(pending), pairs, len(names))
        assert {key.name: count for key, count in purgatory.watchers()} == {
            name: len(list(purgatory.operations(Touchy(name)))) for name in names
        }
        return pending

    def end(self):
        """Everything can still be ended, one way or the other."""
        pending = self.listed()
        if pending:
            watching = list(self.purgatory.operations(pending[0].keys[-1]))
            assert self.purgatory.complete_for_key(pending[0].keys[-1]) == len(watching)
            self.listed()
        self.purgatory.close()
        assert self.purgatory.watched == self.purgatory.keys == 0
        assert_clean(self.purgatory)


WATCHED = (
    ["abc"],
    ["abc", "abc"],
    ["abc", "abc", "cd"],
    ["a", "b", "abc"],
    ["ab", "ab", "cd", "cd"],
    ["a", "a"],
)


@pytest.mark.parametrize("words", WATCHED, ids=" ".join)
@pytest.mark.parametrize("word", ["abc", "b", "cx", "xbc", "xyabcz", "bd"])
def test_a_watch_in_which_a_comparison_raises_changes_nothing(words, word, arm):
    quiet, raised = 0, True
    while raised:
        world, late = World(*words), DelayedOperation(60)
        counts = dict(world.purgatory.watchers())
        arm(quiet)
        try:
            world.watch(word, late)
            raised = False
        except TouchyError:
            pass
        disarm()
        if raised:
            assert world.listed() == world.operations
            assert {key.name: n for key, n in counts.items()} == {
                key.name: n for key, n in world.purgatory.watchers()
            }
            assert (late.outcome, late.keys) == (None, ())
            world.watch(word, late)
        assert world.listed() == [*world.operations, late]
        world.end()
        quiet += 1
    assert quiet > 1


ENDS = {
    "completed": lambda world: world.operations[0].force_complete(),
    "cancelled last": lambda world: world.operations[-1].cancel(),
    "expired": lambda world: world.purgatory.timer._clock.advance(60),
    "closed": lambda world: world.purgatory.close(),
    "one by one": lambda world: [operation.cancel() for operation in world.operations],
}


@pytest.mark.parametrize("words", [*WATCHED, ["a"]], ids=" ".join)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_end_in_which_a_comparison_raises_leaves_every_list(words, end, arm, monkeypatch):
    reported = errors_without_loop(monkeypatch)
    quiet, raised = 0, True
    while raised:
        world = World(*words)
        reported.clear()
        arm(quiet)
        end(world)
        disarm()
        raised = bool(reported)
        assert {type(each.exc_value) for each in reported} <= {TouchyError}
        assert world.listed() == [each for each in world.operations if each.outcome is None]
        if not world.purgatory.closed:
            again = [world.watch(word) for word in words]  # also on keys that could not be deleted
            assert world.listed()[-len(again) :] == again
        world.end()
        quiet += 1


@pytest.mark.parametrize("words", WATCHED, ids=" ".join)
def test_a_key_verb_in_which_the_lookup_raises_changes_nothing(words, arm):
    for verb in ("check_and_complete", "complete_for_key", "cancel_for_key"):
        world = World(*words)
        arm(0)
        with pytest.raises(TouchyError):
            getattr(world.purgatory, verb)(Touchy("a"))
        disarm()
        assert world.listed() == world.operations
        world.end()


@pytest.mark.parametrize("quiet", range(20))
def test_a_refused_deadline_leaves_no_key_although_one_raises(quiet, arm, monkeypatch):
    errors_without_loop(monkeypatch)
    world = World(timer=Timer(clock=ManualClock(), max_pending=1))
    first, late = world.watch("ab"), DelayedOperation(60)
    arm(quiet)
    with pytest.raises((TouchyError, PurgatoryFull)):
        world.watch("xay", late)
    disarm()
    assert world.listed() == [first]
    first.cancel()
    world.watch("zb", late)
    assert world.listed() == [late]
    world.end()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_comparison_comes_out_once_it_has_left(interrupt, arm, monkeypatch):
    monkeypatch.setattr(Touchy, "error", interrupt)
    world = World("ab", "abc")
    arm(1)
    with pytest.raises(interrupt):
        world.operations[1].cancel()
    disarm()
    assert world.operations[1].outcome is Outcome.CANCELLED
    assert world.listed() == world.operations[:1]
    world.end()


def test_a_key_that_changed_its_hash_is_left_all_the_same(monkeypatch):
    class Changing:
        number = 1

        def __hash__(self):
            return self.number

    reported = errors_without_loop(monkeypatch)
    world, key = World(), Changing()
    for more in ((), ("other",)):
        key.number = 1
        operation = DelayedOperation()
        world.purgatory.try_complete_else_watch(operation, (key, *more))
        key.number = 2
        assert operation.cancel()
        assert [type(each.exc_value) for each in reported] == [KeyError]
        reported.clear()
        assert (world.purgatory.pending, world.purgatory.watched, world.purgatory.keys) == (0, 0, 0)
        world.purgatory.check_invariants()
    world.purgatory.close()
