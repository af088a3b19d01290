"""The delayed join: hold JoinGroup requests until all known members have joined.

Kafka's ``DelayedJoin`` and ``InitialDelayedJoin`` on one `Barrier` a group, whose arrivals wait in the Rebalance
purgatory under the group's key. Two things differ. The rebalance timeout starts with the first member that joins,
not with the cause of the rebalance. The first generation waits for its delay after each newcomer, not in steps of
that delay.
"""

from collections.abc import Callable

from purgatory_async import Purgatory
from purgatory_async.patterns import Barrier, Generation

__all__ = ["DelayedJoin"]


class DelayedJoin:
    """The held JoinGroup requests of one group, by member id.

    Args:
        rebalance: The Rebalance purgatory.
        group_id: The watch key is ``("join", group_id)``.
        initial_delay_s: Seconds that the first generation waits after each newcomer; 0 for not at all.
        on_complete: Called with the members that have joined, in order of arrival, before any held request goes on.
    """

    __slots__ = ("_barrier", "_initial_delay_s", "_on_complete")

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
        self._barrier: Barrier[str] = Barrier(
            rebalance, ("join", group_id), expect=(), timeout=None, on_release=self._released
        )

    def expect(self, members: int, rebalance_timeout_s: float, *, first: bool) -> None:
        """Wait for this many members, at most for the timeout; complete now if they have joined. O(1).

        Args:
            members: How many the group knows.
            rebalance_timeout_s: Seconds from the first join.
            first: Whether the group was empty: then only time completes the join, if there is an initial delay.
        """
        gathers = first and self._initial_delay_s > 0
        self._barrier.timeout = rebalance_timeout_s
        self._barrier.initial_delay = self._initial_delay_s if gathers else 0
        self._barrier.expect = () if gathers else members

    async def hold(self, member_id: str) -> None:
        """Hold a request until the join completes.

        Raises:
            OperationCancelled: The member was released, or joined again by another request.
            PurgatoryFull, PurgatoryClosed: The purgatory holds no more.
        """
        await self._barrier.arrive(member_id)

    def release(self, member_id: str) -> bool:
        """End the member's held request with `OperationCancelled`; False if it has none. O(1)."""
        return self._barrier.dismiss(member_id)

    def _released(self, generation: Generation[str]) -> None:
        self._on_complete(generation.members)
