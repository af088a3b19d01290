"""A quorum: complete on enough distinct votes, or return the votes so far at the timeout.

Kafka's produce with ``acks=all`` is one: the request waits for the replicas, counts each once, and on expiry answers
with the replicas it has.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from purgatory_async import DelayedOperation
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Quorum"]

V = TypeVar("V", bound=Hashable)


class Quorum(DelayedOperation[frozenset[V]]):
    """An operation that completes when enough distinct voters have voted.

    Give it to `Purgatory.try_complete_else_watch` like any operation. Earlier votes count, so no vote is lost
    between asking the voters and watching. Its result is the set of voters; on expiry, of fewer than needed.

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
    """

    __slots__ = ("_votes", "need", "of")

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

    def vote(self, voter: V) -> bool:
        """Count a vote, once per voter; the last one needed completes the operation. O(1), O(votes) for the last.

        Returns:
            Whether the vote counted: False for a repeated vote, and after the end.

        Raises:
            ValueError: The voter is not among ``of``.
            TypeError: The voter is not hashable.
        """
        hash(voter)  # refused also where no set looks it up
        if self.of is not None and voter not in self.of:
            raise ValueError(f"voter must be one of {_listed(self.of)}, got {voter!r}")
        if self.outcome is not None or voter in self._votes:
            return False
        self._votes.add(voter)
        if self.keys:  # earlier votes are counted by its first check
            self.try_complete()
        return True

    @property
    def votes(self) -> frozenset[V]:
        """The voters so far."""
        return frozenset(self._votes)

    @property
    def missing(self) -> frozenset[V] | None:
        """The allowed voters that have not voted; None if any voter is allowed."""
        return None if self.of is None else self.of - self._votes

    def try_complete(self) -> bool:
        """Complete it if enough have voted."""
        return len(self._votes) >= self.need and self.force_complete()

    def on_complete(self) -> None:
        """Set the voters as the result, enough or not."""
        self.result = self.votes


def _listed(voters: frozenset[V], most: int = 10) -> str:
    names = sorted(map(repr, voters))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
