"""The delayed sync: hold SyncGroup requests until the leader has sent the assignments."""

from collections.abc import Callable

from purgatory_async import DelayedOperation

__all__ = ["DelayedSync"]


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
