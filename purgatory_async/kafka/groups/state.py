"""The states of a consumer group, and which may follow which.

Empty ──> PreparingRebalance ──> CompletingRebalance ──> Stable
  ^          │    ^    ^                  │                 │
  └──────────┘    │    └──────────────────┘                 │
                  └─────────────────────────────────────────┘
any of them ──> Dead
"""

from enum import StrEnum
from typing import Final

__all__ = ["TRANSITIONS", "GroupState"]


class GroupState(StrEnum):
    """The names are those that DescribeGroups and ListGroups send."""

    EMPTY = "Empty"
    """No members; there may be committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are joining; those that have joined wait."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its members wait for the leader's assignments."""
    STABLE = "Stable"
    """All members can fetch their assignments."""
    DEAD = "Dead"
    """Removed from the coordinator; it never comes back."""


TRANSITIONS: Final = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset[GroupState](),
}
"""Which states may follow each state."""
