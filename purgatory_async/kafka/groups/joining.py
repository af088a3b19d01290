"""What a member asks of its group when it joins, and what it gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["JoinRequest", "Joined", "JoinedMember"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A member that joins, or joins again.

    Attributes:
        member_id: As the coordinator gave it; empty for a new member.
        instance_id: Makes the member static: a later join under it takes its place.
        client_id: As the client names itself.
        client_host: The address it connects from.
        session_timeout_s: Seconds that it may stay silent.
        rebalance_timeout_s: Seconds that a rebalance waits for it; None for the session timeout.
        protocol_type: What the group is for, as ``consumer``; the same for all members.
        protocols: The member's metadata for each protocol it supports, the preferred one first.
        returns_with_id: Whether a new member comes back with the id it is given (from version 4).
        skips_assignment: Whether a leader can be asked to keep the assignments as they are (from version 9).
    """

    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_s: float = 45.0
    rebalance_timeout_s: float | None = None
    protocol_type: str = "consumer"
    protocols: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    returns_with_id: bool = True
    skips_assignment: bool = True

    @property
    def rebalance_s(self) -> float:
        """How long a rebalance waits for it, in seconds."""
        return self.session_timeout_s if self.rebalance_timeout_s is None else self.rebalance_timeout_s


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One member, as its leader gets to know it."""

    id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member's place in a generation.

    Attributes:
        member_id: Its own id.
        generation: The generation's number.
        protocol_type: As in the request.
        protocol_name: The protocol that the group has chosen.
        leader_id: The member that assigns.
        members: All members, for the leader; empty for the others.
        skip_assignment: Whether the leader should keep the assignments as they are.
    """

    member_id: str
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False
