"""A quorum: enough distinct voters have spoken, or the time is up and it is seen who has.

Kafka's produce with ``acks=all`` is one: the request waits for the replicas, each counts once however often it
reports, and a request that runs out of time answers with what it has.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from purgatory_async import DelayedOperation
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Quorum"]

V = TypeVar("V", bound=Hashable)


class Quorum(DelayedOperation[frozenset[V]]):
    """An operation that completes when enough distinct voters have voted.

    Give it to `Purgatory.try_complete_else_watch` as any operation. Votes from before that count, so nothing
    is lost between asking the voters and watching. Its result is the set of those who voted, also when it
    expired: then there are fewer than were needed.

    Args:
        need: How many distinct voters, at least 1 and at most as many as there are.
        of: Who may vote; None for anybody.
        timeout: Seconds from the moment it is watched, as for any operation.

    Raises:
        TypeError: ``need`` is no integer, ``of`` is a string or not iterable, or a voter is not hashable.
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
    """Who may vote; None for anybody."""

    def __init__(self, need: int, *, of: Iterable[V] | None = None, timeout: float | None = None) -> None:
        super().__init__(timeout)
        if of is not None and (isinstance(of, str | bytes) or not isinstance(of, Iterable)):
            raise TypeError(f"of must be an iterable of voters, got {of!r}; did you mean [{of!r}]?")
        self.of = None if of is None else frozenset(of)
        check_integer("need", need, least=1, most=None if self.of is None else len(self.of))
        self.need = need
        self._votes: set[V] = set()

    def vote(self, voter: V) -> bool:
        """Count a voter's vote; the one that makes the quorum completes it. O(1), O(votes) for the last.

        Args:
            voter: Who votes; each counts once.

        Returns:
            Whether the vote counted: False from one who has voted, and after the end.

        Raises:
            ValueError: The voter is not among ``of``.
            TypeError: The voter is not hashable.
        """
        hash(voter)  # refused also where nobody would look it up
        if self.of is not None and voter not in self.of:
            raise ValueError(f"{voter!r} has no vote here; those who have are {_listed(self.of)}")
        if self.outcome is not None or voter in self._votes:
            return False
        self._votes.add(voter)
        if self.keys:  # before it is watched votes are kept, and its first check counts them
            self.try_complete()
        return True

    @property
    def votes(self) -> frozenset[V]:
        """Who has voted."""
        return frozenset(self._votes)

    @property
    def missing(self) -> frozenset[V] | None:
        """Who has not voted yet; None if anybody may vote."""
        return None if self.of is None else self.of - self._votes

    def try_complete(self) -> bool:
        """Complete it if enough have voted."""
        return len(self._votes) >= self.need and self.force_complete()

    def on_complete(self) -> None:
        """The result is who voted, enough or not."""
        self.result = self.votes


def _listed(voters: frozenset[V], most: int = 10) -> str:
    names = sorted(map(repr, voters))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
