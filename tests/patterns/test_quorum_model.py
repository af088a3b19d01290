"""The machine of `Quorum`: beside two sets of voters, and what they add up to."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import Outcome, Purgatory, PurgatoryError
from purgatory_async.patterns import Quorum, QuorumImpossible
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.waiters import awaiting


class Poll(Reference):
    """A quorum as its contract says it."""

    def __init__(self, need, of, timeout) -> None:
        super().__init__()
        self.need, self.of, self.timeout = need, of, timeout
        self.sides: dict[str, list[str]] = {"vote": [], "against": []}
        self.deadline: float | None = None
        self.watched = False
        self.outcome: Outcome | None = None
        self.waiting: list[Wait] = []

    def start(self, wait) -> None:
        if self.outcome is not None:
            wait.end = QuorumImpossible if self.outcome is Outcome.FAILED else self.outcome
        elif not self.watched:
            wait.end = PurgatoryError
        else:
            self.waiting.append(wait)

    def leave(self, wait) -> bool:
        waited = wait in self.waiting
        if waited:
            self.waiting.remove(wait)
        return waited

    def cast(self, side, voter) -> bool:
        if self.outcome is not None or voter in self.sides["vote"] + self.sides["against"]:
            return False
        self.sides[side].append(voter)
        self.judge()
        return True

    def judge(self) -> None:
        if not self.watched:
            return
        if len(self.sides["vote"]) >= self.need:
            self.end(Outcome.COMPLETED)
        elif self.of is not None and len(self.of) - len(self.sides["against"]) < self.need:
            self.end(Outcome.FAILED)

    def watch(self) -> bool:
        self.watched = True
        self.deadline = None if self.timeout is None else self.now + self.timeout
        self.judge()
        return self.outcome is Outcome.COMPLETED

    def end(self, outcome) -> bool:
        ended = self.outcome is None
        if ended:
            self.outcome = outcome
            for wait in self.waiting:
                wait.end = QuorumImpossible if outcome is Outcome.FAILED else outcome
            self.waiting.clear()
        return ended

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        if self.deadline is not None and self.deadline <= self.now:
            self.end(Outcome.EXPIRED)


voters = st.sampled_from("abcde")
STEPS = (
    *[step("cast", st.sampled_from(("vote", "against")), voters)] * 4,
    *[step("wait")] * 2,
    step("watch"),
    step("cancel", st.integers(0, 7)),
    step("pass_time", st.sampled_from((0, 1, 2))),
    step("turn"),
)


class QuorumMachine(Story):
    last_words = (("cancel_it",),)

    @initialize(
        need=st.integers(1, 5),
        of_any=st.booleans(),
        timeout=st.sampled_from((None, 3)),
        at_once=st.booleans(),
    )
    def begin(self, need, of_any, timeout, at_once) -> None:
        of = None if of_any else list("abcde")
        self.purgatory = Purgatory(timer=self.begin_on(Poll(need, of, timeout)))
        self.quorum: Quorum[str] = Quorum(need, of=of, timeout=timeout)
        if at_once:
            self.play(("watch",))

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    def cast(self, side, voter) -> None:
        assert getattr(self.quorum, side)(voter) is self.reference.cast(side, voter)

    def wait(self) -> None:
        self.begin_wait(Wait("the quorum"), awaiting(self.quorum))

    def watch(self) -> None:
        if not self.reference.watched and self.reference.outcome is None:
            assert self.purgatory.try_complete_else_watch(self.quorum, ["term"]) is self.reference.watch()

    def cancel_it(self) -> None:
        assert self.quorum.cancel() is self.reference.end(Outcome.CANCELLED)

    def look(self) -> None:
        quorum, reference = self.quorum, self.reference
        votes, against = map(frozenset, reference.sides.values())
        assert (quorum.outcome, quorum.votes) == (reference.outcome, votes)
        assert quorum.missing == (None if reference.of is None else set(reference.of) - votes - against)
        if reference.outcome in (Outcome.COMPLETED, Outcome.EXPIRED):
            assert quorum.result == votes
        if reference.outcome is Outcome.FAILED:
            error = quorum.exception
            assert isinstance(error, QuorumImpossible)
            assert (error.for_, error.against) == (votes, against)

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(QuorumMachine)
