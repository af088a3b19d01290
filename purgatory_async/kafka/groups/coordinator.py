"""The group coordinator: consumer groups by id, and requests about them that are not a member's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from purgatory_async import Purgatory, TimerHandle
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.group import Group
from purgatory_async.kafka.groups.joining import Joined, JoinRequest
from purgatory_async.kafka.groups.members import MEMBER_BYTES, Member, unknown_member
from purgatory_async.kafka.groups.offsets import CommittedOffset, CommittedOffsets, TopicPartition
from purgatory_async.kafka.groups.subscriptions import CONSUMER_PROTOCOL, subscribed_topics

__all__ = ["Coordinator"]

SWEEP_S: Final = 600.0
"""Seconds between two searches for groups without members and offsets, like Kafka's check of its offsets' retention."""


class Coordinator:
    """Makes, finds and removes groups.

    Args:
        rebalance: The Rebalance purgatory: holds joins and syncs; its timer runs sessions.
        initial_delay_s: Seconds that the first generation of an empty group waits after each newcomer.
        min_session_s: The shortest session timeout that a member may ask for, in seconds.
        max_session_s: The longest one.
        max_groups: Groups allowed.
        max_members: Members and pending ids allowed in one group.
        max_bytes: What all groups may hold of names, metadata, assignments and offsets.
    """

    def __init__(
        self,
        rebalance: Purgatory,
        *,
        initial_delay_s: float = 3.0,
        min_session_s: float = 0.1,
        max_session_s: float = 1800.0,
        max_groups: int = 10_000,
        max_members: int = 10_000,
        max_bytes: int = 256 << 20,
    ) -> None:
        self.budget = Budget(
            max_bytes,
            "groups",
            "let consumers leave, or raise max_group_bytes",
            ErrorCode.group_max_size_reached,
        )
        self._rebalance = rebalance
        self._initial_delay_s = initial_delay_s
        self._min_session_s = min_session_s
        self._max_session_s = max_session_s
        self._max_groups = max_groups
        self._max_members = max_members
        self._groups: dict[str, Group] = {}
        self._sweeper: TimerHandle | None = None

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    # For requests.

    def find(self, group_id: str) -> Group | None:
        """Return the group, if the coordinator has it. O(1)."""
        return self._groups.get(group_id)

    def group_of(self, group_id: str, member_id: str) -> Group:
        """Return the group of a member. O(1).

        Raises:
            ProtocolError: ``invalid_group_id``, or ``unknown_member_id`` as there is no such group.
        """
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise unknown_member(member_id)
        return group

    async def join(self, group_id: str, request: JoinRequest) -> Joined:
        """Join a group, which is made for its first member; see `Group.join`.

        Raises:
            ProtocolError: ``invalid_group_id``, ``invalid_session_timeout``, as `Group.join`, or
                ``coordinator_not_available`` if there are too many groups.
        """
        _check_group_id(group_id)
        if not self._min_session_s <= request.session_timeout_s <= self._max_session_s:
            raise ProtocolError(
                ErrorCode.invalid_session_timeout,
                f"session.timeout.ms must be {self._min_session_s * 1000:.0f} to {self._max_session_s * 1000:.0f}, "
                f"got {request.session_timeout_s * 1000:.0f}",
            )
        if request.member_id or group_id in self._groups:
            return await self.group_of(group_id, request.member_id).join(request)
        group = self._opened(group_id)
        try:
            return await group.join(request)
        except BaseException:
            self._remove_unused(group)  # a refused or cancelled first member leaves nothing behind
            raise

    def commit(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        instance_id: str | None = None,
    ) -> None:
        """Commit offsets, also of a group without members; see `Group.commit`.

        Raises:
            ProtocolError: ``invalid_group_id``, as `Group.commit`, or ``illegal_generation`` if there is no group.
        """
        _check_group_id(group_id)
        if generation >= 0 and group_id not in self._groups:
            raise ProtocolError(
                ErrorCode.illegal_generation,
                f"the group {group_id!r} has no generation, got {generation}; join it, or commit with -1",
            )
        if offsets or group_id in self._groups:
            group = self._opened(group_id)
            try:
                group.commit(member_id, generation, offsets, instance_id=instance_id)
            except ProtocolError:
                self._remove_unused(group)
                raise

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets: of the partitions, or all for None. O(partitions).

        A partition without one, or of an unknown group, gets `NO_OFFSET`.
        """
        group = self._groups.get(group_id)
        return (CommittedOffsets(self.budget) if group is None else group.offsets).fetch(partitions)

    def delete(self, group_id: str) -> None:
        """Remove a group without members, and its offsets. O(committed offsets).

        Raises:
            ProtocolError: ``invalid_group_id``, ``group_id_not_found``, or ``non_empty_group``.
        """
        group = self._existing(group_id)
        if group.members:
            raise ProtocolError(
                ErrorCode.non_empty_group,
                f"the group {group_id!r} must have no members, got {len(group.members)}; close its consumers",
            )
        group.offsets.forget(tuple(group.offsets.fetch()))
        self._remove(group)

    def forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Drop a group's offsets of partitions, but for topics that its members read. O(members + partitions).

        Returns:
            The partitions whose offsets are kept for that reason.

        Raises:
            ProtocolError: ``invalid_group_id``, ``group_id_not_found``, or ``non_empty_group`` if it has members
                that are no consumers.
        """
        group = self._existing(group_id)
        if group.members and group.protocol_type != CONSUMER_PROTOCOL:
            raise ProtocolError(
                ErrorCode.non_empty_group,
                f"the members of the group {group_id!r} must be consumers, got {group.protocol_type!r}",
            )
        subscribed = subscribed_topics(next(iter(each.protocols.values()), b"") for each in group.members)
        places = frozenset(partitions)
        kept = frozenset(place for place in places if subscribed is None or place[0] in subscribed)
        group.offsets.forget(places - kept)
        return kept

    # For the broker and for tests.

    def members(self, group_id: str) -> tuple[Member, ...]:
        """Return the members of a group, in the order in which they became known; none of an unknown group."""
        group = self._groups.get(group_id)
        return () if group is None else tuple(group.members)

    def expire_sessions(self, group_id: str, *member_ids: str) -> tuple[str, ...]:
        """Expire the sessions of these members now, or of all: the group rebalances without them.

        Returns:
            The ids of the members that were removed.

        Raises:
            ProtocolError: ``unknown_member_id`` for a group or member that is not known; nothing changes.
        """
        group = self.group_of(group_id, ", ".join(member_ids))
        expired = [group.members.find(member_id) for member_id in member_ids] or list(group.members)
        for member in expired:
            member.session.expire()
        return tuple(member.id for member in expired)

    def forget_topic(self, topic: str) -> None:
        """Drop all groups' offsets of a deleted topic. O(committed offsets)."""
        for group in self._groups.values():
            group.offsets.forget_topic(topic)

    def close(self) -> None:
        """Remove all groups; their held requests are answered. O(members)."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    # Groups come and go.

    def _existing(self, group_id: str) -> Group:
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise ProtocolError(
                ErrorCode.group_id_not_found, f"the group {group_id!r} must exist, and does not"
            )
        return group

    def _opened(self, group_id: str) -> Group:
        """Return the group, made if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            if len(self._groups) >= self._max_groups:
                raise ProtocolError(
                    ErrorCode.coordinator_not_available,
                    f"there must be at most {self._max_groups} groups, cannot make {group_id!r}; raise max_groups",
                )
            self.budget.take(MEMBER_BYTES + len(group_id))
            if self._sweeper is None:
                self._sweeper = self._rebalance.timer.call_later(SWEEP_S, self._sweep)
            group = self._groups[group_id] = Group(
                group_id,
                self._rebalance,
                initial_delay_s=self._initial_delay_s,
                max_members=self._max_members,
                budget=self.budget,
            )
        return group

    def _remove_unused(self, group: Group) -> None:
        if group.unused and self._groups.get(group.id) is group:
            self._remove(group)

    def _remove(self, group: Group) -> None:
        del self._groups[group.id]
        self.budget.take(-MEMBER_BYTES - len(group.id))
        group.close()

    def _sweep(self) -> None:
        """Remove empty groups, so that ids used once do not add up. O(groups)."""
        for group in list(self._groups.values()):
            self._remove_unused(group)
        self._sweeper = self._rebalance.timer.call_later(SWEEP_S, self._sweep) if self._groups else None


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise ProtocolError(ErrorCode.invalid_group_id, f"group.id must not be empty, got {group_id!r}")
