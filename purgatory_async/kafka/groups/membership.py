"""The membership state machine of a group: which members come and go, and the rebalances between generations.

`TRANSITIONS` says which state may follow which. All state changes are synchronous, and complete before any held
request goes on.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from purgatory_async import Purgatory
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.delayed import DelayedJoin, DelayedSync
from purgatory_async.kafka.groups.joining import Joined, JoinedMember, JoinRequest
from purgatory_async.kafka.groups.members import Member, Members
from purgatory_async.kafka.groups.sessions import Session
from purgatory_async.kafka.groups.state import TRANSITIONS, GroupState

__all__ = ["SETTLED", "Membership"]

SETTLED: Final = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
"""The states in which the members of a generation are fixed."""


class Membership:
    """The members of one group, its generations, and the state that it is in.

    Args:
        group_id: Its name.
        rebalance: The Rebalance purgatory; its timer also runs the members' sessions.
        initial_delay_s: Seconds that the first generation waits after each newcomer.
        max_members: Members and pending ids allowed.
        budget: Where what the group holds is counted.
    """

    def __init__(
        self,
        group_id: str,
        rebalance: Purgatory,
        *,
        initial_delay_s: float,
        max_members: int,
        budget: Budget,
    ) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name = ""
        self.leader_id = ""
        self.members = Members(budget)
        self._max_members = max_members
        self._rebalance = rebalance
        self._join = DelayedJoin(
            rebalance, group_id, initial_delay_s=initial_delay_s, on_complete=self._complete_join
        )
        self._sync: DelayedSync | None = None
        self._sync_key = ("sync", group_id)
        self._unsynced: set[str] = set()

    def __repr__(self) -> str:
        return f"<Group {self.id!r} {self.state} generation={self.generation} members={len(self.members)}>"

    # The rebalance.

    def _begin_rebalance(self) -> None:
        """Wait for all known members to join, again or for the first time."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            first = self.state is GroupState.EMPTY
            self._enter(GroupState.PREPARING_REBALANCE)
            self._join.begin(self.members.rebalance_timeout_s(), first=first)
            if self._sync is not None:
                self._sync.cancel()
        self._expect()

    def _expect(self) -> None:
        """Tell the held joins what they wait for; a group without members is empty."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self.members:
            self._join.expect(self.members.known)
        else:
            self.generation += 1
            self.protocol_type = self.protocol_name = self.leader_id = ""
            self._enter(GroupState.EMPTY)

    def _complete_join(self, joined: tuple[str, ...]) -> None:
        """Begin a generation, without the dynamic members that have not joined. O(members x protocols)."""
        here = set(joined)
        for member in [member for member in self.members if member.id not in here]:
            if member.instance_id is None:
                self.members.remove(member)
        self.generation += 1
        self.protocol_name = self.members.choose_protocol()
        if self.leader_id not in here:
            self.leader_id = joined[0]
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._unsynced = here
        self._sync = DelayedSync(
            self.members.rebalance_timeout_s(), lambda: self.state is GroupState.STABLE, self._give_up_sync
        )
        self._rebalance.try_complete_else_watch(self._sync, (self._sync_key,))

    def _give_up_sync(self) -> None:
        """Go on without those that have not asked for their assignments; the leader is one."""
        for member_id in self._unsynced:
            member = self.members.get(member_id)
            if member is not None:
                self.members.remove(member)
        self._begin_rebalance()

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        self.members.assign(assignments)
        self._enter(GroupState.STABLE)
        self._rebalance.check_and_complete(self._sync_key)

    def _place_of(
        self, member: Member, *, leader_id: str | None = None, skip_assignment: bool = False
    ) -> Joined:
        """A member's place in the generation. O(1); O(members) for the leader."""
        leader_id = self.leader_id if leader_id is None else leader_id
        members: tuple[JoinedMember, ...] = ()
        if member.id == leader_id:
            members = tuple(
                JoinedMember(each.id, each.instance_id, each.protocols.get(self.protocol_name, b""))
                for each in self.members
            )
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=leader_id,
            members=members,
            skip_assignment=skip_assignment,
        )

    # Members that come.

    def _check_size(self) -> None:
        """Refuse one more member than the group may have."""
        if self.members.known >= self._max_members:
            raise ProtocolError(
                ErrorCode.group_max_size_reached,
                f"the group {self.id!r} must have at most {self._max_members} members; "
                "let consumers leave, or raise max_members",
            )

    def _give_id(self, request: JoinRequest) -> str:
        """Give an id to a new member, kept for a session; a rebalance waits for it."""
        member_id = self.members.new_id(request.client_id)
        session = Session(
            self._rebalance.timer, request.session_timeout_s, partial(self._forget_pending, member_id)
        )
        try:
            self.members.give(member_id, session)
        except ProtocolError:
            session.end()
            raise
        self._expect()
        return member_id

    def _admit(self, member_id: str, request: JoinRequest) -> Member:
        """Take a member that joins for the first time."""
        member = Member(
            id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            protocols=request.protocols,
            rebalance_timeout_s=request.rebalance_s,
            session=Session(self._rebalance.timer, request.session_timeout_s, lambda: self._remove(member)),
        )
        try:
            self.members.add(member)
        except ProtocolError:
            member.session.end()
            raise
        self.members.take_back(member_id)
        self.protocol_type = request.protocol_type
        return member

    def _update(self, member: Member, request: JoinRequest) -> None:
        """Take what a member says of itself when it joins again."""
        self.members.update(member, request.protocols, request.rebalance_s)
        member.client_id, member.client_host = request.client_id, request.client_host
        member.session.timeout_s = request.session_timeout_s

    def _rename(self, member: Member) -> None:
        """Give a static member whose instance joins anew another id, and end the wait under the former one."""
        former_id = member.id
        self._join.release(former_id)
        self.members.rename(member, self.members.new_id(member.instance_id or ""))
        if self.leader_id == former_id:
            self.leader_id = member.id

    # Members that go.

    def _remove(self, member: Member) -> None:
        """Remove a member that left, or whose session expired; the others rebalance."""
        self.members.remove(member)
        self._join.release(member.id)
        if self.state in SETTLED:
            self._begin_rebalance()
        else:
            self._expect()

    def _forget_pending(self, member_id: str) -> None:
        self.members.take_back(member_id)
        self._expect()

    def close(self) -> None:
        """Remove the group: sessions end, held requests are answered. O(members)."""
        self._enter(GroupState.DEAD)
        for member_id in tuple(self.members.pending):
            self.members.take_back(member_id)
        for member in list(self.members):
            self.members.remove(member)
            self._join.release(member.id)
        if self._sync is not None:
            self._sync.cancel()

    def _enter(self, state: GroupState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"{self!r} must enter one of {sorted(TRANSITIONS[self.state])}, got {state}")
        self.state = state
