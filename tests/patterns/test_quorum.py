"""The quorum: enough distinct voters have spoken, or the time is up and it is seen who has."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import Quorum
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.core.recording import Recorded
from tests.patterns.waiters import after, awaiting, each_way, ends, waiting

BROKERS = ("leader", "first", "second")


def watched(purgatory, quorum, keys=("orders-0",)) -> Quorum[str]:
    assert purgatory.try_complete_else_watch(quorum, keys) is False
    return quorum


# Voting.


def test_it_completes_with_the_deciding_vote_and_its_voters(purgatory):
    quorum = watched(purgatory, Quorum(2, of=BROKERS))
    assert quorum.vote("second") is True
    assert quorum.outcome is None
    assert quorum.vote("leader") is True
    assert quorum.outcome is Outcome.COMPLETED
    assert quorum.result == {"leader", "second"}
    assert type(quorum.result) is frozenset


def test_each_voter_counts_once_however_often_it_votes(purgatory):
    quorum = watched(purgatory, Quorum(2, of=BROKERS))
    assert [quorum.vote("leader") for _ in range(3)] == [True, False, False]
    assert quorum.outcome is None
    assert quorum.votes == {"leader"}
    quorum.cancel()


def test_voters_that_are_equal_are_one_voter(purgatory):
    quorum = watched(purgatory, Quorum(2))
    assert [quorum.vote(voter) for voter in (1, 1.0, True)] == [True, False, False]
    quorum.cancel()


def test_votes_and_missing_tell_who_has_voted_and_who_has_not(purgatory):
    quorum = watched(purgatory, Quorum(2, of=BROKERS))
    assert (quorum.votes, quorum.missing) == (frozenset(), set(BROKERS))
    quorum.vote("first")
    before = quorum.votes
    assert (before, quorum.missing) == ({"first"}, {"leader", "second"})
    quorum.vote("second")
    assert (quorum.votes, quorum.missing) == ({"first", "second"}, {"leader"})
    assert before == {"first"}, "what was read before does not change"


def test_without_a_voter_list_any_vote_counts(purgatory):
    quorum = watched(purgatory, Quorum(2))
    assert quorum.of is None
    assert quorum.missing is None
    assert quorum.vote("anybody")
    assert quorum.missing is None
    assert quorum.vote(("a", "tuple"))
    assert quorum.result == {"anybody", ("a", "tuple")}


def test_the_voters_may_come_from_any_iterable_and_count_once(purgatory):
    quorum = Quorum(2, of=(broker for broker in [*BROKERS, *BROKERS]))
    assert quorum.of == set(BROKERS)
    assert quorum.need == 2
    with pytest.raises(ValueError, match="need must be at most 1, got 2"):
        Quorum(2, of=["leader", "leader"])


def test_an_unknown_voter_is_refused_with_the_known_ones(purgatory):
    quorum = watched(purgatory, Quorum(2, of=BROKERS))
    quorum.vote("leader")
    with pytest.raises(ValueError, match=r"'first', 'leader', 'second', got 'stranger'"):
        quorum.vote("stranger")
    assert quorum.votes == {"leader"}
    assert quorum.outcome is None
    quorum.vote("first")
    with pytest.raises(ValueError, match="stranger"):
        quorum.vote("stranger")  # also after the end


def test_among_very_many_voters_the_refusal_stays_short():
    with pytest.raises(ValueError, match="stranger") as refusal:
        Quorum(1, of=range(10_000)).vote("stranger")
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("of", [pytest.param(None, id="anybody"), pytest.param(BROKERS, id="of three")])
def test_a_voter_that_cannot_be_hashed_is_refused(of, purgatory):
    quorum = watched(purgatory, Quorum(2, of=of))
    with pytest.raises(TypeError, match="unhashable"):
        quorum.vote(["leader"])
    assert quorum.votes == frozenset()
    quorum.cancel()
    with pytest.raises(TypeError, match="unhashable"):
        quorum.vote(["leader"])  # also after the end


@given(
    votes=st.lists(st.sampled_from("abcde"), max_size=12),
    need=st.integers(1, 5),
    before=st.integers(0, 12),
)
def test_the_first_distinct_voters_that_suffice_are_its_result(votes, need, before):
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    quorum: Quorum[str] = Quorum(need, of=list("abcde"))
    counted = list(dict.fromkeys(votes[:before]))  # all of them: it cannot end before it is watched
    assert [quorum.vote(voter) for voter in votes[:before]].count(True) == len(counted)
    assert purgatory.try_complete_else_watch(quorum, ["k"]) is (len(counted) >= need)
    for voter in votes[before:]:
        new = voter not in counted and len(counted) < need
        assert quorum.vote(voter) is new
        counted += [voter] * new
    assert quorum.votes == set(counted)
    assert quorum.missing == set("abcde") - set(counted)
    complete = len(counted) >= need
    assert (quorum.outcome, quorum.result) == (
        (Outcome.COMPLETED, set(counted)) if complete else (None, None)
    )
    quorum.cancel()
    assert_clean(purgatory)


# Before it is watched, and after it has ended.


def test_votes_from_before_it_is_watched_count(purgatory):
    quorum: Quorum[str] = Quorum(2, of=BROKERS)
    assert quorum.vote("leader") is True
    assert quorum.vote("leader") is False
    watched(purgatory, quorum)
    assert quorum.vote("first") is True
    assert quorum.result == {"leader", "first"}


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda p, quorum, clock: quorum.vote("second"), Outcome.COMPLETED, id="completed"),
        pytest.param(lambda p, quorum, clock: clock.advance(30), Outcome.EXPIRED, id="expired"),
        pytest.param(lambda p, quorum, clock: quorum.cancel(), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda p, quorum, clock: quorum.fail(KeyError("k")), Outcome.FAILED, id="failed"),
        pytest.param(lambda p, quorum, clock: p.close(), Outcome.CLOSED, id="closed"),
    ],
)
def test_a_vote_after_the_end_does_not_count(end, outcome, purgatory, manual_clock):
    quorum = watched(purgatory, Quorum(2, of=BROKERS, timeout=30))
    quorum.vote("leader")
    end(purgatory, quorum, manual_clock)
    assert quorum.outcome is outcome
    votes, result = quorum.votes, quorum.result
    assert quorum.vote("first") is False
    assert (quorum.votes, quorum.result) == (votes, result)


# The time.


@pytest.mark.parametrize("voters", [(), ("leader",), ("leader", "first")])
def test_when_the_time_is_up_its_result_is_who_has_voted(voters, purgatory, manual_clock):
    quorum = watched(purgatory, Quorum(3, of=BROKERS, timeout=30))
    for voter in voters:
        quorum.vote(voter)
    manual_clock.advance(29.999)
    assert quorum.outcome is None
    manual_clock.advance(0.001)
    assert quorum.outcome is Outcome.EXPIRED
    assert quorum.result == set(voters)
    assert quorum.missing == set(BROKERS) - set(voters)


def test_a_vote_counts_before_the_deadline_and_not_after(purgatory, manual_clock):
    in_time, too_late = [watched(purgatory, Quorum(1, timeout=30)) for _ in range(2)]
    manual_clock.advance(29.999)
    assert in_time.vote("leader")
    manual_clock.advance(0.001)
    assert too_late.vote("leader") is False
    assert (in_time.outcome, too_late.outcome) == (Outcome.COMPLETED, Outcome.EXPIRED)
    assert (in_time.result, too_late.result) == ({"leader"}, frozenset())


def test_a_vote_in_an_expiry_hook_after_its_own_is_too_late(purgatory, manual_clock):
    # Hooks run between two expiries of one pass, in order of deadline.
    first = watched(purgatory, Quorum(1, timeout=1))
    votes: list[bool] = []
    voter = Recorded([], timeout=1, then=lambda: votes.extend([first.vote("hook"), last.vote("hook")]))
    purgatory.try_complete_else_watch(voter, ["voter"])
    last = watched(purgatory, Quorum(1, timeout=1))
    manual_clock.advance(1)
    assert votes == [False, True]
    assert (first.outcome, first.result) == (Outcome.EXPIRED, frozenset())
    assert (last.outcome, last.result) == (Outcome.COMPLETED, {"hook"})


# As an operation among others.


def test_it_is_an_operation_as_any_other_and_watches_any_keys(purgatory):
    quorum = watched(purgatory, Quorum(2, of=BROKERS), ["orders-0", "orders-1"])
    other = DelayedOperation()
    purgatory.try_complete_else_watch(other, ["orders-0"])
    assert isinstance(quorum, DelayedOperation)
    quorum.vote("leader")
    assert purgatory.check_and_complete("orders-0") == 0
    quorum.vote("first")
    assert list(purgatory.operations()) == [other]
    assert purgatory.keys == 1
    other.cancel()


def test_completing_its_key_results_in_the_voters_so_far(purgatory):
    quorum = watched(purgatory, Quorum(3, of=BROKERS))
    quorum.vote("first")
    assert purgatory.complete_for_key("orders-0", "another result") == 1
    assert quorum.outcome is Outcome.COMPLETED
    assert quorum.result == {"first"}


def test_a_full_purgatory_refuses_it_and_the_votes_are_kept(manual_clock):
    purgatory = Purgatory(timer=Timer(clock=manual_clock), max_pending=1)
    first = watched(purgatory, Quorum(1))
    second: Quorum[str] = Quorum(2, timeout=5)
    second.vote("leader")
    with pytest.raises(PurgatoryFull):
        purgatory.try_complete_else_watch(second, ["orders-0"])
    assert (second.outcome, second.votes, purgatory.timer.pending) == (None, {"leader"}, 0)
    first.vote("leader")
    watched(purgatory, second)
    second.vote("first")
    assert second.result == {"leader", "first"}
    assert_clean(purgatory)


def test_of_two_quorums_a_hook_of_one_may_vote_in_the_other(purgatory):
    outer = watched(purgatory, Quorum(1))

    class Inner(Quorum[str]):
        def on_complete(self) -> None:
            super().on_complete()
            outer.vote(f"inner with {len(self.result)}")

    inner = Inner(2)
    watched(purgatory, inner)
    inner.vote("a")
    inner.vote("b")
    assert outer.result == {"inner with 2"}


@pytest.mark.asyncio
@each_way
@pytest.mark.parametrize("race", ["cancel_before", "cancel_after"])
@pytest.mark.parametrize("others", [0, 2])
async def test_cancelled_beside_the_last_vote_only_that_task_ends(others, race, way, purgatory):
    quorum = watched(purgatory, Quorum(2, timeout=5))
    cancelled = await waiting(awaiting(quorum), way=way)
    rest = await waiting(*[awaiting(quorum) for _ in range(others)])
    quorum.vote("first")
    getattr(cancelled[0], race)(lambda: quorum.vote("leader"))
    reached = race == "cancel_before" or way.reached_late
    assert await ends(cancelled) == ["cancelled" if reached else Outcome.COMPLETED]
    assert await ends(rest) == [Outcome.COMPLETED] * others
    assert (quorum.outcome, quorum.result) == (Outcome.COMPLETED, {"first", "leader"})


@pytest.mark.asyncio
@pytest.mark.parametrize("event", ["the last vote", "the deadline"])
@pytest.mark.parametrize("passes", [1, 2, 3, 8])
async def test_a_cancelled_awaiter_disturbs_neither_quorum_nor_others(event, passes):
    runs: list[tuple[Purgatory, Quorum[str], asyncio.Task[Outcome]]] = []

    async def scenario() -> None:
        clock = ManualClock()
        purgatory = Purgatory(timer=Timer(clock=clock))
        quorum = watched(purgatory, Quorum(2, of=BROKERS, timeout=5))
        quorum.vote("leader")
        runs.append((purgatory, quorum, asyncio.create_task(awaiting(quorum))))
        after(passes, lambda: quorum.vote("first") if event == "the last vote" else clock.advance(5))
        await quorum

    points = await cancel_sweep(scenario)
    assert points >= 1
    await settle()
    assert len(runs) == 1 + 2 * points  # the one cancelled before its first step has none
    expected = (
        (Outcome.COMPLETED, {"leader", "first"})
        if event == "the last vote"
        else (Outcome.EXPIRED, {"leader"})
    )
    for purgatory, quorum, other in runs:
        assert (quorum.outcome, quorum.result) == expected
        assert await other is expected[0]
        assert_clean(purgatory)
