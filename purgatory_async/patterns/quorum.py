"""A quorum: complete on enough distinct votes, or return the votes so far at the timeout.

Kafka's produce with ``acks=all`` is one: the request waits for the replicas, counts each once, and on expiry answers
with the replicas it has. Raft's election ends early, too: once so many are against a candidate that the others are too
few, it need not wait for its timeout.
"""

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

from purgatory_async import DelayedOperation, PurgatoryError
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Quorum", "QuorumImpossible"]

V = TypeVar("V", bound=Hashable)


class QuorumImpossible(PurgatoryError):  # noqa: N818 - the contract calls it by what happened
    """So many voters are ``against`` that those ``for_`` and the others are fewer than needed."""

    def __init__(
        self, *args: object, for_: frozenset[Any] = frozenset(), against: frozenset[Any] = frozenset()
    ) -> None:
        super().__init__(*args)
        self.for_ = for_
        self.against = against


class Quorum(DelayedOperation[frozenset[V]]):
    """An operation that completes when enough distinct voters have voted for it.

    Give it to `Purgatory.try_complete_else_watch` like any operation. Earlier votes count, so no vote is lost
    between asking the voters and watching. Its result is the set of voters for it; on expiry, of fewer than needed. If
    the voters are known, it fails with `QuorumImpossible` once too many are against it.

    Args:
        need: How many distinct voters, at least 1 and at most the size of ``of``.
        of: The voters allowed; None for any.
        timeout: Seconds from the moment it is watched, as for any operation.

    Raises:
        TypeError: ``need`` is not an integer, ``of`` is a string or not iterable, or a voter is not hashable.
        ValueError: ``need`` or ``timeout`` is out of bounds.

    >>> from purgatory_async import Purgatory, Timer
    >>> from purgatory_async.testing import ManualClock
    >>> purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    >>> produce = Quorum(2, of=["leader", "follower-1", "follower-2"], timeout=30)
    >>> produce.vote("leader")
    True
    >>> purgatory.try_complete_else_watch(produce, ["orders-0"])
    False
    >>> produce.vote("leader"), sorted(produce.missing)
    (False, ['follower-1', 'follower-2'])
    >>> produce.vote("follower-2"), produce.outcome, sorted(produce.result)
    (True, <Outcome.COMPLETED: 'completed'>, ['follower-2', 'leader'])

    >>> election = Quorum(2, of=["a", "b", "c"], timeout=30)
    >>> purgatory.try_complete_else_watch(election, ["term-7"])
    False
    >>> election.vote("a"), election.against("b"), election.against("c"), election.exception
    (True, True, True, QuorumImpossible('2 of 3 voters are needed, 2 are against'))
    """

    __slots__ = ("_against", "_votes", "need", "of")

    need: int
    """How many distinct voters it takes."""
    of: frozenset[V] | None
    """The voters allowed; None for any."""

    def __init__(self, need: int, *, of: Iterable[V] | None = None, timeout: float | None = None) -> None:
        super().__init__(timeout)
        if of is not None and (isinstance(of, str | bytes) or not isinstance(of, Iterable)):
            raise TypeError(f"of must be an iterable of voters, got {of!r}; did you mean [{of!r}]?")
        self.of = None if of is None else frozenset(of)
        self.need = check_integer("need", need, least=1, most=None if self.of is None else len(self.of))
        self._votes: set[V] = set()
        self._against: set[V] = set()

    def vote(self, voter: V) -> bool:
        """Count a vote for it, one per voter; the last one needed completes the operation. O(1), O(votes) for the last.

        Returns:
            Whether the vote counted: False for a second vote of a voter, and after the end.

        Raises:
            ValueError: The voter is not among ``of``.
            TypeError: The voter is not hashable.
        """
        return self._count(voter, self._votes)

    def against(self, voter: V) -> bool:
        """Count a vote against it, else like `vote`; with ``of`` it fails once the others are fewer than needed.

        Awaiting it then raises `QuorumImpossible`. If that happens before it is watched, its first check fails it.
        """
        return self._count(voter, self._against)

    @property
    def votes(self) -> frozenset[V]:
        """The voters for it so far."""
        return frozenset(self._votes)

    @property
    def missing(self) -> frozenset[V] | None:
        """The allowed voters that have not voted, for or against; None if any voter is allowed."""
        return None if self.of is None else self.of - self._votes - self._against

    def try_complete(self) -> bool:
        """Complete it if enough have voted for it; fail it if they no longer can."""
        if len(self._votes) >= self.need:
            return self.force_complete()
        if self.of is not None and len(self.of) - len(self._against) < self.need:
            self.fail(
                QuorumImpossible(
                    f"{self.need} of {len(self.of)} voters are needed, {len(self._against)} are against",
                    for_=self.votes,
                    against=frozenset(self._against),
                )
            )
        return False

    def on_complete(self) -> None:
        """Set the voters for it as the result, enough or not."""
        self.result = self.votes

    def _count(self, voter: V, side: set[V]) -> bool:
        hash(voter)  # refused also where no set looks it up
        if self.of is not None and voter not in self.of:
            raise ValueError(f"voter must be one of {_listed(self.of)}, got {voter!r}")
        if self.outcome is not None or voter in self._votes or voter in self._against:
            return False
        side.add(voter)
        if self.keys:  # earlier votes are counted by its first check
            self.try_complete()
        return True


def _listed(voters: frozenset[V], most: int = 10) -> str:
    names = sorted(map(repr, voters))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
