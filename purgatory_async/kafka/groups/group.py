"""A consumer group: the requests of its members, and why some are refused.

    join ──> all known members have joined ──> the leader syncs ──> heartbeats ──> ... a change: join again
             DelayedJoin                       DelayedSync          Session

Only `Group.join` and `Group.sync` wait; all else is synchronous.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from purgatory_async import OperationCancelled, Outcome, Purgatory, PurgatoryFull
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.joining import Joined, JoinRequest
from purgatory_async.kafka.groups.members import Member, MemberIdRequiredError
from purgatory_async.kafka.groups.membership import SETTLED, Membership
from purgatory_async.kafka.groups.offsets import CommittedOffset, CommittedOffsets, TopicPartition
from purgatory_async.kafka.groups.state import GroupState

__all__ = ["Group", "Synced"]


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's assignment, and the protocol it was made under."""

    assignment: bytes
    protocol_type: str
    protocol_name: str


class Group(Membership):
    """One group, by what its members ask of it. See `Membership` for the arguments."""

    def __init__(
        self,
        group_id: str,
        rebalance: Purgatory,
        *,
        initial_delay_s: float,
        max_members: int,
        budget: Budget,
    ) -> None:
        super().__init__(
            group_id, rebalance, initial_delay_s=initial_delay_s, max_members=max_members, budget=budget
        )
        self.offsets = CommittedOffsets(budget)

    @property
    def unused(self) -> bool:
        """Whether the group can be removed without a loss: it has no members, ids given out, or offsets."""
        return not (self.members or self.members.pending or self.offsets)

    # Joining.

    async def join(self, request: JoinRequest) -> Joined:
        """Join, or join again, and wait until all known members have.

        A cancelled request leaves the member to its session; one that never learnt its id is removed.

        Returns:
            The member's place in the generation; at once if a member repeats what the group knows.

        Raises:
            ProtocolError: ``inconsistent_group_protocol``, ``member_id_required``, ``unknown_member_id``,
                ``fenced_instance_id``, ``group_max_size_reached``; ``rebalance_in_progress`` if the member joined by
                another request meanwhile; ``coordinator_not_available`` if the group is dead or no more requests
                can be held.
        """
        self._require_alive()
        former = self.members.instance(request.instance_id) or self.members.get(request.member_id)
        self._check_protocols(request, former)
        if not request.member_id and former is not None:
            answer = self._replace(former, request)
            if answer is not None:
                return answer
            return await self._held(former, former.id)
        pending = request.member_id in self.members.pending and request.instance_id is None
        if pending or not request.member_id:
            return await self._join_anew(request)
        member = self.members.find(request.member_id, request.instance_id)
        repeats = _same(member.protocols, request.protocols)
        leads_anew = self.state is GroupState.STABLE and member.id == self.leader_id
        self._update(member, request)
        if repeats and not leads_anew and self.state in SETTLED:
            member.session.renew()
            return self._place_of(member)
        self._begin_rebalance()
        return await self._held(member, member.id)

    async def _join_anew(self, request: JoinRequest) -> Joined:
        """Join as a member that the group does not have."""
        known = request.member_id in self.members.pending
        if not known:
            self._check_size()
        if not known and request.returns_with_id and request.instance_id is None:
            raise MemberIdRequiredError(self._give_id(request))
        member_id = request.member_id or self.members.new_id(request.instance_id or request.client_id)
        member = self._admit(member_id, request)
        delivered = known
        try:
            self._begin_rebalance()
            place = await self._held(member, member_id)
            delivered = True
        finally:
            if not delivered and self.members.get(member_id) is member:
                self._remove(member)
        return place

    def _replace(self, former: Member, request: JoinRequest) -> Joined | None:
        """Let a static member's instance join anew; return its place if the generation can go on as it is."""
        leader_id = self.leader_id
        changes = self.state is not GroupState.STABLE or not _same(former.protocols, request.protocols)
        self._update(former, request)  # first, as it may be refused
        self._rename(former)
        if changes:
            self._begin_rebalance()
            return None
        former.session.renew()
        if request.skips_assignment:
            return self._place_of(former, skip_assignment=former.id == self.leader_id)
        # An older client must not take itself for the leader, or it would assign anew.
        return self._place_of(former, leader_id=leader_id)

    async def _held(self, member: Member, member_id: str) -> Joined:
        try:
            with member.session.held():
                await self._join.hold(member_id)
        except OperationCancelled:
            self.members.find(member_id, member.instance_id)  # it left, or its instance joined anew
            raise self._rebalancing(f"the member {member_id!r} joined by another request") from None
        except PurgatoryFull as full:
            raise ProtocolError(
                ErrorCode.coordinator_not_available, f"no more requests are held, of {full.limit}; try again"
            ) from full
        self.members.find(member_id, member.instance_id)
        return self._place_of(member)

    # Syncing, staying and leaving.

    async def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes],
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Synced:
        """Return the member's assignment; wait until the leader has sent all. O(members) for the leader.

        Args:
            member_id: The member.
            generation: The generation that it joined.
            assignments: By member id; from the leader only.
            instance_id: The id of a static member.
            protocol_type: Must be the group's, if given.
            protocol_name: Must be the group's, if given.

        Raises:
            ProtocolError: ``unknown_member_id``, ``fenced_instance_id``, ``illegal_generation``,
                ``inconsistent_group_protocol``; ``rebalance_in_progress`` if members join anew, or the leader does
                not sync within the rebalance timeout; ``coordinator_not_available`` if the group is dead;
                ``group_max_size_reached`` if the groups would hold too many bytes.
        """
        member = self._member(member_id, instance_id, generation)
        for given, own in ((protocol_type, self.protocol_type), (protocol_name, self.protocol_name)):
            if given is not None and given != own:
                raise self._inconsistent(f"must be {own!r}, got {given!r}")
        sync = self._sync
        if self.state is GroupState.PREPARING_REBALANCE or sync is None:
            raise self._rebalancing(f"its {len(self.members)} members join again")
        self._unsynced.discard(member.id)
        if self.state is GroupState.COMPLETING_REBALANCE:
            if member.id == self.leader_id:
                self._assign(assignments)
            else:
                with member.session.held():
                    outcome = await sync
                self.members.find(member_id, instance_id)  # it left, or its instance joined anew
                if outcome is not Outcome.COMPLETED:
                    raise self._rebalancing(f"the leader of generation {generation} sent no assignments")
        member.session.renew()
        return Synced(member.assignment, self.protocol_type, self.protocol_name)

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> None:
        """Keep the member's session. O(1).

        Raises:
            ProtocolError: ``unknown_member_id``, ``fenced_instance_id``, ``illegal_generation``,
                ``coordinator_not_available``; ``rebalance_in_progress`` if it must join again, which keeps the
                session too.
        """
        member = self._member(member_id, instance_id, generation)
        member.session.renew()
        if self.state is GroupState.PREPARING_REBALANCE:
            raise self._rebalancing(f"its {len(self.members)} members join again")

    def leave(self, member_id: str, *, instance_id: str | None = None) -> None:
        """Remove a member, or an id that was given out; the others rebalance. O(members).

        Args:
            member_id: May be empty for a static member.
            instance_id: The id of a static member.

        Raises:
            ProtocolError: ``unknown_member_id``, ``fenced_instance_id``, ``coordinator_not_available``.
        """
        self._require_alive()
        pending = self.members.pending.get(member_id)
        if pending is not None:
            pending.expire()
            return
        static = self.members.instance(instance_id)
        if static is not None and not member_id:
            self._remove(static)
        else:
            self._remove(self.members.find(member_id, instance_id))

    # Offsets.

    def commit(
        self,
        member_id: str,
        generation: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        instance_id: str | None = None,
    ) -> None:
        """Commit offsets, of a member or, with a negative generation, of a client without a group. O(offsets).

        Raises:
            ProtocolError: ``unknown_member_id``, ``fenced_instance_id``, ``illegal_generation``,
                ``coordinator_not_available``; ``rebalance_in_progress`` between joining and the assignments;
                ``invalid_commit_offset_size`` if the groups would hold too many bytes.
        """
        self._require_alive()
        if generation >= 0 or self.state is not GroupState.EMPTY:
            member = self._member(member_id, instance_id, generation)
            member.session.renew()
            if self.state is GroupState.COMPLETING_REBALANCE:
                raise self._rebalancing(f"it waits for the assignments of {self.leader_id!r}")
        self.offsets.commit(offsets)

    # Checks.

    def _require_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise ProtocolError(
                ErrorCode.coordinator_not_available, f"the group {self.id!r} was removed; find it again"
            )

    def _member(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        self._require_alive()
        member = self.members.find(member_id, instance_id)
        if generation != self.generation:
            raise ProtocolError(
                ErrorCode.illegal_generation,
                f"the generation of {self.id!r} must be {self.generation}, got {generation}; join again",
            )
        return member

    def _check_protocols(self, request: JoinRequest, former: Member | None) -> None:
        kind = request.protocol_type
        if not kind or not request.protocols:
            raise self._inconsistent(f"needs type and names, got {kind!r}, {[*request.protocols]}")
        if self.members and kind != self.protocol_type:
            raise self._inconsistent(f"must be {self.protocol_type!r}, got {kind!r}")
        if not self.members.supports_one_of(request.protocols, besides=former):
            raise self._inconsistent(f"must be one that all members support, got {sorted(request.protocols)}")

    def _inconsistent(self, why: str) -> ProtocolError:
        return ProtocolError(
            ErrorCode.inconsistent_group_protocol, f"the protocol of the group {self.id!r} {why}"
        )

    def _rebalancing(self, why: str) -> ProtocolError:
        return ProtocolError(
            ErrorCode.rebalance_in_progress, f"the group {self.id!r} rebalances: {why}; join again"
        )


def _same(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> bool:
    """Whether the protocols are equal, their order of preference included."""
    return list(one.items()) == list(other.items())
