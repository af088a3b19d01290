"""Votes against a `Quorum`: it fails as soon as enough can no longer be for it."""

import asyncio
import copy
import pickle

import pytest

from purgatory_async import Outcome, PurgatoryError
from purgatory_async.patterns import Quorum, QuorumImpossible
from purgatory_async.testing import cancel_sweep, settle
from tests.patterns.waiters import awaiting, ends, waiting

VOTERS = "abcde"


def watched(purgatory, need=3, of=VOTERS, **settings):
    quorum = Quorum(need, of=None if of is None else list(of), **settings)
    assert purgatory.try_complete_else_watch(quorum, ["term"]) is False
    return quorum


@pytest.mark.parametrize(("need", "most"), [(1, 4), (3, 2), (5, 0)])
def test_it_fails_with_the_vote_that_makes_it_impossible(need, most, purgatory):
    quorum = watched(purgatory, need)
    for voter in VOTERS[:most]:
        assert quorum.against(voter) is True
    assert (quorum.outcome, quorum.missing) == (None, set(VOTERS[most:]))
    assert quorum.against(VOTERS[most]) is True
    assert (quorum.outcome, purgatory.pending, quorum.result) == (Outcome.FAILED, 0, None)
    error = quorum.exception
    assert type(error) is QuorumImpossible
    assert (error.for_, error.against) == (frozenset(), set(VOTERS[: most + 1]))
    assert type(error.against) is frozenset


def test_its_error_names_those_for_it_and_those_against(purgatory):
    quorum = watched(purgatory)
    votes = [
        quorum.vote("a"),
        quorum.against("b"),
        quorum.vote("c"),
        quorum.against("d"),
        quorum.against("e"),
    ]
    assert votes == [True] * 5
    error = quorum.exception
    assert (error.for_, error.against) == ({"a", "c"}, {"b", "d", "e"})
    assert str(error) == "3 of 5 voters are needed, 3 are against"
    assert isinstance(error, PurgatoryError)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (QuorumImpossible, str(error), vars(error))


def test_the_first_vote_of_a_voter_counts_on_either_side(purgatory):
    quorum = watched(purgatory)
    assert [quorum.vote("a"), quorum.against("a"), quorum.vote("a")] == [True, False, False]
    assert [quorum.against("b"), quorum.vote("b"), quorum.against("b")] == [True, False, False]
    assert (quorum.votes, quorum.missing) == ({"a"}, {"c", "d", "e"})
    quorum.vote("c")
    quorum.vote("d")
    assert (quorum.outcome, quorum.result) == (Outcome.COMPLETED, {"a", "c", "d"})
    assert quorum.against("e") is False


def test_without_a_voter_list_it_stays_possible(purgatory):
    quorum = watched(purgatory, 2, of=None)
    assert [quorum.against(voter) for voter in range(100)] == [True] * 100
    assert (quorum.outcome, quorum.missing) == (None, None)
    quorum.cancel()


def test_impossible_before_watching_it_fails_at_its_first_check(purgatory):
    quorum = Quorum(3, of=list(VOTERS))
    assert [quorum.against(voter) for voter in "abc"] == [True] * 3
    assert quorum.outcome is None
    assert purgatory.try_complete_else_watch(quorum, ["term"]) is False
    assert (quorum.outcome, purgatory.pending) == (Outcome.FAILED, 0)
    assert quorum.exception.against == set("abc")


@pytest.mark.parametrize("of", [None, VOTERS])
def test_a_wrong_voter_is_refused_as_by_vote(of, purgatory):
    quorum = watched(purgatory, of=of)
    with pytest.raises(TypeError, match="unhashable"):
        quorum.against(["a"])
    if of is not None:
        with pytest.raises(ValueError, match="voter must be one of 'a', 'b'"):
            quorum.against("stranger")
    quorum.cancel()


@pytest.mark.asyncio
async def test_all_that_await_it_learn_at_once(purgatory):
    quorum = watched(purgatory, timeout=1000)
    several = await waiting(*[awaiting(quorum) for _ in range(3)])
    for voter in "abc":
        quorum.against(voter)
    assert [type(end) for end in await ends(several)] == [QuorumImpossible] * 3
    assert purgatory.timer.pending == 0


@pytest.mark.asyncio
async def test_cancelled_anywhere_it_leaves_nothing(purgatory):
    async def scenario():
        quorum = Quorum(2, of=["a", "b", "c"])
        voting = asyncio.create_task(vote(quorum))
        try:
            with pytest.raises(QuorumImpossible):
                await purgatory.run(quorum, ["term"])
        finally:
            await asyncio.gather(voting)
            assert purgatory.pending == 0
            assert quorum.outcome in (Outcome.FAILED, Outcome.CANCELLED)

    async def vote(quorum):
        for each in (quorum.vote, quorum.against, quorum.against):
            await asyncio.sleep(0)
            each("abc"[len(quorum.votes) + len(quorum._against)])

    assert await cancel_sweep(scenario) >= 1
    await settle()
    assert purgatory.pending == 0
