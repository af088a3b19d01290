"""Hypothesis looks for the shortest story that a barrier and a plain JoinGroup tell differently.

What happens in one pass of the loop is a list of steps, so that arrivals, cancellations and the end of a window
may meet before any task can know. In the reference a cancelled member has left at once.
"""

import asyncio
from importlib.util import find_spec
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from purgatory_async import OperationCancelled, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.conftest import new_uvloop

MEMBERS = "abcd"


class Visit:
    """One arrival, in the reference.

    Args:
        member: Who arrives.
    """

    def __init__(self, member: str) -> None:
        self.member = member
        self.end: object = None  # what its task returns or raises; None while it waits


class JoinGroup:
    """A barrier as its contract says it, without a loop.

    Args:
        expect: How many, or who.
        timeout: Seconds.
        initial_delay: Seconds.
    """

    def __init__(self, expect: "int | frozenset[str]", timeout: float, initial_delay: float) -> None:
        self.released: list[Generation[str]] = []
        self.expect = expect
        self.timeout = timeout
        self.initial_delay = initial_delay
        self.now = 0.0
        self.number = 0
        self.closed = False
        self.here: dict[str, Visit] = {}
        self.opened = self.newest = 0.0

    @property
    def closes(self) -> float:
        return min(self.newest + (self.initial_delay or inf), self.opened + self.timeout)

    def arrive(self, visit: Visit) -> None:
        if self.closed:
            visit.end = PurgatoryClosed
            return
        if visit.member in self.here:
            self.here[visit.member].end = OperationCancelled
        else:
            self.newest = self.now
            self.opened = self.opened if self.here else self.now
        self.here[visit.member] = visit
        if self.complete():
            self.go_on()

    def expect_others(self, expect: "int | frozenset[str]") -> None:
        self.expect = expect
        if self.here and self.complete():
            self.go_on()

    def complete(self) -> bool:
        if isinstance(self.expect, int):
            return len(self.here) >= self.expect
        return bool(self.expect) and self.expect <= set(self.here)

    def go_on(self) -> None:
        self.number += 1
        missing = None if isinstance(self.expect, int) else self.expect - set(self.here)
        complete = self.complete() if missing is None else not missing
        self.released.append(Generation(self.number, tuple(self.here), complete, missing))
        self.end_all(self.released[-1])

    def end_all(self, end: object) -> int:
        ended = list(self.here.values())
        for visit in ended:
            visit.end = end
        self.here.clear()
        return len(ended)

    def cancel(self, visit: Visit) -> None:
        visit.end = "cancelled"
        if self.here.get(visit.member) is visit:
            del self.here[visit.member]

    def dismiss(self, member: str) -> bool:
        visit = self.here.pop(member, None)
        if visit is not None:
            visit.end = OperationCancelled
        return visit is not None

    def lose_timer(self) -> None:
        if self.closes < inf:
            self.end_all(PurgatoryClosed)

    def pass_time(self, seconds: float) -> None:
        if self.here and self.closes <= self.now + seconds:
            self.go_on()
        self.now += seconds


members = st.sampled_from(MEMBERS)
arrivals = st.tuples(st.just("arrive"), members)
cancels = st.tuples(st.just("cancel"), st.integers(0, 7))
times = st.tuples(st.just("pass_time"), st.sampled_from((0, 0.5, 1, 2.5)))
turns = st.just(("turn",))
sends_away = st.sampled_from((("cancel_for_key",), ("complete_for_key",)))
expectations = st.one_of(st.integers(1, 5), st.frozensets(members))
timeouts = st.sampled_from((None, 0.5, 1, 2, 4))
delays = st.sampled_from((0, 0.5, 1, 2))
new_times = st.one_of(st.tuples(st.just("set_timeout"), timeouts), st.tuples(st.just("set_delay"), delays))
growths = st.tuples(st.just("expect_others"), expectations)
dismissals = st.tuples(st.just("dismiss"), members)


class BarrierMachine(RuleBasedStateMachine):
    """A barrier and its reference, with the same calls."""

    new_loop = staticmethod(asyncio.SelectorEventLoop)

    @initialize(
        expect=expectations,
        timeout=timeouts,
        initial_delay=delays,
    )
    def begin(self, expect, timeout, initial_delay) -> None:
        self.loop = self.new_loop()
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.released: list[Generation[str]] = []
        self.group: Barrier[str] = Barrier(
            self.purgatory,
            "group",
            expect=expect,
            timeout=timeout,
            initial_delay=initial_delay,
            on_release=self.released.append,
        )
        self.reference = JoinGroup(expect, inf if timeout is None else timeout, initial_delay)
        self.tasks: dict[asyncio.Task[Generation[str]], Visit] = {}
        self.starting: list[
            Visit | None
        ] = []  # what the loop's next pass does, in order; None: fire what is due
        self.leaving = 0  # cancelled, and their tasks have yet to run: a count may still include them
        self.generations: dict[int, Generation[str]] = {}

    @rule(
        steps=st.lists(
            st.one_of(arrivals, arrivals, cancels, times, turns, sends_away, growths, new_times, dismissals),
            max_size=8,
        )
    )
    def one_turn(self, steps) -> None:
        self.loop.run_until_complete(self.play(steps))

    @rule(
        members=st.lists(members, min_size=1, max_size=4, unique=True),
        leaving=st.integers(1, 4),
        seconds=st.sampled_from((0, 0.5, 1)),
    )
    def some_arrive_while_some_of_the_others_leave(self, members, leaving, seconds) -> None:
        arrive = [("arrive", member) for member in members]
        leave = [("cancel", 0)] * min(leaving, len(self.reference.here))
        self.loop.run_until_complete(self.play([("pass_time", seconds), *arrive, *leave]))

    @rule(members=st.lists(members, min_size=2, max_size=4, unique=True), seconds=st.sampled_from((0.5, 1)))
    def some_arrive_one_by_one(self, members, seconds) -> None:
        steps = [(("arrive", member), ("turn",), ("pass_time", seconds)) for member in members]
        self.loop.run_until_complete(self.play([step for three in steps for step in three]))

    @rule(seconds=st.sampled_from((0.5, 1, 2.5)))
    def time_passes(self, seconds) -> None:
        self.loop.run_until_complete(self.play([("pass_time", seconds)]))

    async def play(self, steps) -> None:
        for name, *arguments in steps:
            step = getattr(self, name)
            await step() if name == "turn" else step(*arguments)
            assert self.group.present == tuple(self.reference.here)
        await self.turn()
        await settle()
        self.compare()

    # The steps.

    def arrive(self, member) -> None:
        visit = Visit(member)
        self.tasks[asyncio.ensure_future(self.group.arrive(member))] = visit
        self.starting.append(visit)

    def cancel(self, index) -> None:
        live = [task for task, visit in self.tasks.items() if not task.done() and visit.end != "cancelled"]
        if live:
            task = live[index % len(live)]
            visit = self.tasks[task]
            self.leaving += self.reference.here.get(visit.member) is visit
            self.starting = [other for other in self.starting if other is not visit]
            task.cancel()
            self.reference.cancel(visit)

    def dismiss(self, member) -> None:
        assert self.group.dismiss(member) == self.reference.dismiss(member)

    def pass_time(self, seconds) -> None:
        self.clock.advance(seconds)
        self.reference.pass_time(seconds)

    def expect_others(self, expect) -> None:
        self.group.expect = expect
        self.reference.expect_others(expect)

    def set_timeout(self, timeout) -> None:
        self.group.timeout = timeout
        self.reference.timeout = inf if timeout is None else timeout
        self.may_be_due()

    def set_delay(self, initial_delay) -> None:
        self.group.initial_delay = self.reference.initial_delay = initial_delay
        self.may_be_due()

    def may_be_due(self) -> None:
        if self.reference.here and self.reference.closes <= self.reference.now:
            self.starting.append(None)

    def cancel_for_key(self) -> None:
        self.ended(self.reference.end_all(OperationCancelled), len(self.purgatory.cancel_for_key("group")))

    def complete_for_key(self) -> None:
        self.ended(self.reference.end_all(OperationCancelled), self.purgatory.complete_for_key("group", "?"))

    def close(self) -> None:
        self.ended(self.reference.end_all(PurgatoryClosed), len(self.purgatory.close()))
        self.reference.closed = True

    def close_timer(self) -> None:
        self.purgatory.timer.close()
        self.reference.lose_timer()

    def ended(self, waited, got) -> None:
        assert 0 <= got - waited <= self.leaving
        self.leaving -= got - waited

    async def turn(self) -> None:
        """Let every task that can run, run: those that come arrive, those that were cancelled leave."""
        await asyncio.sleep(0)
        for visit in self.starting:
            if visit is None:
                self.reference.pass_time(0)
            else:
                self.reference.arrive(visit)
        self.starting.clear()
        self.leaving = 0

    # What is compared.

    def compare(self) -> None:
        reference = self.reference
        assert self.group.present == tuple(reference.here)
        for task, visit in self.tasks.items():
            got = told_by(task)
            assert got == visit.end, f"the arrival of {visit.member!r} got {got!r}"
            if isinstance(got, Generation):
                assert got is self.generations.setdefault(got.number, got), "two objects for one generation"
        self.tasks = {task: visit for task, visit in self.tasks.items() if not task.done()}
        assert self.purgatory.pending == len(reference.here)
        assert self.released == reference.released
        assert [each.missing for each in self.released] == [each.missing for each in reference.released]
        # The members have no deadlines of their own: there is the window, while a member waits.
        assert self.purgatory.timer.pending == bool(reference.here and reference.closes < inf)

    @invariant()
    def its_purgatory_is_sound(self) -> None:
        self.purgatory.check_invariants()

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.loop.run_until_complete(self.play([("close_timer",)]))
        self.loop.run_until_complete(self.play([("close",), ("arrive", "a")]))
        assert_clean(self.purgatory)
        self.loop.close()


def told_by(task) -> object:
    """What a task returned or raised, as the reference tells it."""
    if not task.done():
        return None
    if task.cancelled():
        return "cancelled"
    exception = task.exception()
    return task.result() if exception is None else type(exception)


class OnUvloop(BarrierMachine):
    """The same on the other loop."""

    new_loop = staticmethod(new_uvloop)


machines = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(BarrierMachine, id="asyncio"),
        pytest.param(
            OnUvloop,
            id="uvloop",
            marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
        ),
    ],
)


@machines
def test_no_short_story_differs_from_the_reference(machine) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=50, stateful_step_count=12))


@pytest.mark.slow
@machines
def test_no_longer_story_differs_from_the_reference(machine) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=300, stateful_step_count=25))
