"""The machine of `Barrier`: beside a plain JoinGroup, in which a cancelled member has left at once."""

from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from purgatory_async import OperationCancelled, Purgatory, PurgatoryClosed
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.work import PlannedError


class JoinGroup(Reference):
    """A barrier as its contract says it.

    Args:
        expect: How many, or who.
        timeout: Seconds; None for ever.
        initial_delay: Seconds.
    """

    def __init__(self, expect, timeout, initial_delay) -> None:
        super().__init__()
        self.released: list[Generation[str]] = []
        self.expect, self.timeout, self.initial_delay = expect, timeout, initial_delay
        self.closed = self.broken = False
        self.here: dict[str, Wait] = {}
        self.opened = self.newest = 0.0

    @property
    def closes(self) -> float:
        longest = inf if self.timeout is None else self.opened + self.timeout
        return min(self.newest + (self.initial_delay or inf), longest)

    def start(self, wait) -> None:
        member = wait.wanted
        if self.closed:
            wait.end = PurgatoryClosed
            return
        if self.broken:
            wait.end = PlannedError
            return
        if member in self.here:
            self.here[member].end = OperationCancelled
        else:
            self.newest = self.now
            self.opened = self.opened if self.here else self.now
        self.here[member] = wait
        self.release_if(self.complete())

    def leave(self, wait) -> bool:
        waited = self.here.get(wait.wanted) is wait
        if waited:
            del self.here[wait.wanted]
        return waited

    def expect_others(self, expect) -> None:
        self.expect = expect
        self.release_if(self.complete())

    def set_time(self, name, seconds) -> None:
        setattr(self, name, seconds)
        if self.here and self.closes <= self.now:
            self.next_pass(None, lambda: self.pass_time(0))

    def complete(self) -> bool:
        if isinstance(self.expect, int):
            return len(self.here) >= self.expect
        return bool(self.expect) and self.expect <= set(self.here)

    def release_if(self, released) -> None:
        if not (self.here and released):
            return
        missing = None if isinstance(self.expect, int) else self.expect - set(self.here)
        complete = self.complete() if missing is None else not missing
        self.released.append(Generation(len(self.released) + 1, tuple(self.here), complete, missing))
        self.end_all(self.released[-1])

    def end_all(self, end) -> int:
        ended = list(self.here.values())
        for wait in ended:
            wait.end = end
        self.here.clear()
        return len(ended)

    def dismiss(self, member) -> bool:
        wait = self.here.pop(member, None)
        if wait is not None:
            wait.end = OperationCancelled
        return wait is not None

    def pass_time(self, seconds) -> None:
        self.release_if(self.closes <= self.now + seconds)
        super().pass_time(seconds)


members = st.sampled_from("abcd")
expectations = st.one_of(st.integers(1, 5), st.frozensets(members))
timeouts = st.sampled_from((None, 0.5, 1, 2, 4))
delays = st.sampled_from((0, 0.5, 1, 2))
STEPS = (
    *[step("arrive", members)] * 2,
    step("cancel", st.integers(0, 7)),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2.5))),
    step("turn"),
    st.sampled_from([("cancel_for_key",), ("complete_for_key", "?")]).map(lambda end: ("end_key", *end)),
    step("expect_others", expectations),
    st.one_of(
        step("set_time", st.just("timeout"), timeouts), step("set_time", st.just("initial_delay"), delays)
    ),
    step("dismiss", members),
    st.sampled_from([("reset",), ("reset",), ("abort",)]),
)


class BarrierMachine(Story):
    last_words = (("close_timer",), ("turn",), ("close",), ("arrive", "a"))

    @initialize(expect=expectations, timeout=timeouts, initial_delay=delays)
    def begin(self, expect, timeout, initial_delay) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(JoinGroup(expect, timeout, initial_delay)))
        self.released: list[Generation[str]] = []
        self.generations: dict[int, Generation[str]] = {}
        settings = {"expect": expect, "timeout": timeout, "initial_delay": initial_delay}
        self.group: Barrier[str] = Barrier(
            self.purgatory, "group", on_release=self.released.append, **settings
        )

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(
        members=st.lists(members, min_size=1, max_size=4, unique=True),
        leaving=st.integers(1, 4),
        seconds=st.sampled_from((0, 0.5, 1)),
    )
    def some_arrive_while_some_of_the_others_leave(self, members, leaving, seconds) -> None:
        leave = [("cancel", 0)] * min(leaving, len(self.reference.here))
        self.play(("pass_time", seconds), *[("arrive", member) for member in members], *leave)

    @rule(members=st.lists(members, min_size=2, max_size=4, unique=True), seconds=st.sampled_from((0.5, 1)))
    def some_arrive_one_by_one(self, members, seconds) -> None:
        steps = [(("arrive", member), ("turn",), ("pass_time", seconds)) for member in members]
        self.play(*[step for three in steps for step in three])

    @rule(seconds=st.sampled_from((0.5, 1, 2.5)))
    def time_passes(self, seconds) -> None:
        self.play(("pass_time", seconds))

    def arrive(self, member) -> None:
        self.begin_wait(Wait(member), self.group.arrive(member))

    def dismiss(self, member) -> None:
        assert self.group.dismiss(member) == self.reference.dismiss(member)

    def reset(self) -> None:
        self.group.reset()
        self.reference.broken = False
        self.reference.end_all(OperationCancelled)

    def abort(self) -> None:
        self.group.abort(PlannedError("planned"))
        self.reference.broken = True
        self.reference.end_all(PlannedError)

    def expect_others(self, expect) -> None:
        self.group.expect = expect
        self.reference.expect_others(expect)

    def set_time(self, name, seconds) -> None:
        setattr(self.group, name, seconds)
        self.reference.set_time(name, seconds)

    def end_key(self, verb, *result) -> None:
        ended = getattr(self.purgatory, verb)("group", *result)
        self.ended(ended if result else len(ended), OperationCancelled)

    def close(self) -> None:
        self.ended(len(self.purgatory.close()), PurgatoryClosed)
        self.reference.closed = True

    def close_timer(self) -> None:
        self.timer.close()
        if self.reference.closes < inf:
            self.reference.end_all(PurgatoryClosed)

    def ended(self, got, end) -> None:
        more = got - self.reference.end_all(end)
        assert 0 <= more <= self.leaving
        self.leaving -= more

    def look(self) -> None:
        here = tuple(self.reference.here)
        assert (self.group.present, self.group.n_waiting) == (here, len(here))
        assert self.group.broken is self.reference.broken

    def compare(self) -> None:
        super().compare()
        for task, wait in self.tasks.items():
            if isinstance(wait.end, Generation):
                generation = self.generations.setdefault(wait.end.number, task.result())
                assert task.result() is generation, "two objects for one generation"
        reference = self.reference
        assert self.purgatory.pending == len(reference.here)
        assert self.released == reference.released
        assert [each.missing for each in self.released] == [each.missing for each in reference.released]
        # The members have no deadlines of their own: there is the window, while a member waits.
        assert self.timer.pending == bool(reference.here and reference.closes < inf)

    @invariant()
    def its_purgatory_is_sound(self) -> None:
        self.purgatory.check_invariants()

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(BarrierMachine)
