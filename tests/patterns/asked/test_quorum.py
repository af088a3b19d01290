"""What people asked for who count votes: the fault of their way, and `Quorum.against` without it."""

import asyncio

import pytest

from purgatory_async import Outcome, Purgatory
from purgatory_async.patterns import Quorum, QuorumImpossible
from purgatory_async.testing import settle
from tests.patterns.waiters import Waiter

pytestmark = pytest.mark.asyncio

PEERS = ("a", "b", "c", "d", "e")


async def test_valkey_3833_a_lost_election_waits_for_its_timeout(world):
    """valkey-io/valkey#3833: a candidate hears only of votes for it, so a split vote lasts for all of the timeout.

    With refusals counted, the most that it can still get falls below the quorum, and the next election begins at once.
    """
    timer = world.timer()

    async def elect(votes):
        granted = set()
        deadline = timer.time() + 30
        while len(granted) < 3 and timer.time() < deadline:
            voter, grants = votes.pop(0) if votes else ("", False)
            if grants:
                granted.add(voter)
            await timer.sleep(1)
        return len(granted) >= 3, timer.time()

    ballots = [("a", True), ("b", False), ("c", False), ("d", True), ("e", False)]
    waiter = Waiter(elect(list(ballots)))
    await world.run(60)
    assert waiter.got == (False, 30)  # though all had voted after 5 seconds

    async with Purgatory(timer=timer) as purgatory:
        election = Quorum[str](3, of=PEERS, timeout=30)
        waiter = Waiter(purgatory.run(election, ["term-7"]))
        await settle()
        for voter, grants in ballots:
            (election.vote if grants else election.against)(voter)
        await settle()
        assert (type(waiter.got), waiter.got.for_) == (QuorumImpossible, {"a", "d"})


async def test_openraft_357_a_quorum_has_refused(purgatory):
    """databendlabs/openraft#357: a candidate that a majority has refused goes on to collect votes.

    It can never be the leader. A count of refusals that forgets who they are of ends it too early: a peer that repeats
    its answer, as after a lost packet, counts twice.
    """
    answers = [("b", False), ("b", False), ("b", False), ("a", True), ("c", True), ("d", True)]

    def by_hand():
        granted = refused = 0
        for _, grants in answers:
            granted, refused = granted + grants, refused + (not grants)
            if refused >= 3:
                return "refused"
            if granted >= 3:
                return "elected"
        return "waits"

    assert by_hand() == "refused"  # by a single peer

    election = Quorum[str](3, of=PEERS, timeout=30)
    waiter = asyncio.ensure_future(purgatory.run(election, ["term-7"]))
    await settle()
    counted = [(election.vote if grants else election.against)(voter) for voter, grants in answers]
    assert counted == [True, False, False, True, True, True]
    assert (await waiter, election.result) == (Outcome.COMPLETED, {"a", "c", "d"})
