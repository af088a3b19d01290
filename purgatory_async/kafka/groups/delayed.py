"""What a rebalance holds: JoinGroup requests until all known members have joined, then SyncGroup requests.

Kafka's ``DelayedJoin`` and ``InitialDelayedJoin`` on one `Barrier` a group, whose arrivals wait in the Rebalance
purgatory under the group's key. As in Kafka, the rebalance timeout starts with the cause of the rebalance, and later
members do not extend it. Two things differ. If no member has joined by then, the next one ends the rebalance. The
first generation waits for its delay after each newcomer, not in steps of that delay.
"""

from collections.abc import Callable

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.patterns import Barrier, Generation

__all__ = ["DelayedJoin", "DelayedSync"]


class DelayedJoin:
    """The held JoinGroup requests of one group, by member id.

    Args:
        rebalance: The Rebalance purgatory.
        group_id: The watch key is ``("join", group_id)``.
        initial_delay_s: Seconds that the first generation waits after each newcomer; 0 for not at all.
        on_complete: Called with the members that have joined, in order of arrival, before any held request goes on.
    """

    __slots__ = ("_barrier", "_ends_at", "_held", "_initial_delay_s", "_on_complete", "_timer")

    def __init__(
        self,
        rebalance: Purgatory,
        group_id: str,
        *,
        initial_delay_s: float,
        on_complete: Callable[[tuple[str, ...]], object],
    ) -> None:
        self._initial_delay_s = initial_delay_s
        self._on_complete = on_complete
        self._timer = rebalance.timer
        self._ends_at = 0.0
        self._held = 0
        self._barrier: Barrier[str] = Barrier(
            rebalance, ("join", group_id), expect=(), timeout=None, on_release=self._released
        )

    def begin(self, rebalance_timeout_s: float, *, first: bool) -> None:
        """Begin a rebalance, which takes this many seconds at most. O(1).

        Args:
            rebalance_timeout_s: Seconds from now.
            first: Whether the group was empty: then only time completes the join, if there is an initial delay.
        """
        self._ends_at = self._timer.time() + rebalance_timeout_s
        self._barrier.initial_delay = self._initial_delay_s if first else 0

    def expect(self, members: int) -> None:
        """Wait for this many members, all that the group knows; complete now if they have joined. O(1)."""
        self._barrier.expect = () if self.gathers else members

    async def hold(self, member_id: str) -> None:
        """Hold a request until the join completes.

        Raises:
            OperationCancelled: The member was released, or joined again by another request.
            PurgatoryFull, PurgatoryClosed: The purgatory holds no more.
        """
        if not self._held:  # the barrier counts from the first arrival
            self._barrier.timeout = max(0.0, self._ends_at - self._timer.time())
        self._held += 1
        try:
            await self._barrier.arrive(member_id)
        finally:
            self._held -= 1

    @property
    def gathers(self) -> bool:
        """Whether only time completes the join."""
        return self._barrier.initial_delay > 0

    def release(self, member_id: str) -> bool:
        """End the member's held request with `OperationCancelled`; False if it has none. O(1)."""
        return self._barrier.dismiss(member_id)

    def _released(self, generation: Generation[str]) -> None:
        self._on_complete(generation.members)


class DelayedSync(DelayedOperation[None]):
    """The wait of one generation for its assignments, as Kafka's ``DelayedSync``; its members' requests await it.

    It completes when the leader has sent the assignments, is cancelled when another rebalance begins, and expires
    after the rebalance timeout.

    Args:
        rebalance_timeout_s: Seconds for the leader.
        has_assignments: Whether the leader has sent them.
        give_up: Called when it expires, to go on without the members that have not asked for theirs.
    """

    __slots__ = ("_give_up", "_has_assignments")

    def __init__(
        self, rebalance_timeout_s: float, has_assignments: Callable[[], bool], give_up: Callable[[], object]
    ) -> None:
        super().__init__(rebalance_timeout_s)
        self._has_assignments = has_assignments
        self._give_up = give_up

    def try_complete(self) -> bool:
        """Complete once the group has its assignments."""
        return self._has_assignments() and self.force_complete()

    def on_expiration(self) -> None:
        """Go on without the leader."""
        self._give_up()
