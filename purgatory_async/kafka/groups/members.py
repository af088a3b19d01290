"""The members of a consumer group: those that joined, static ones by instance, and ids given out but not yet used."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.sessions import Session

__all__ = ["MEMBER_BYTES", "Member", "MemberIdRequiredError", "Members"]

MEMBER_BYTES: Final = 1024
"""Of a member or a group, beside the texts that it brings; measured with tracemalloc."""


class MemberIdRequiredError(ProtocolError):
    """A new member gets an id, and must join again with it.

    Args:
        member_id: Kept for a session.
    """

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.member_id_required, f"join again with the member id {member_id!r}")
        self.member_id = member_id


@dataclass(slots=True, eq=False)
class Member:
    """One member of a group.

    Attributes:
        id: Given by the coordinator; a static member's changes when its instance joins anew.
        instance_id: Chosen by the client; a member with one is static.
        client_id: As the client names itself.
        client_host: The address it connects from.
        protocols: The member's metadata for each protocol it supports, the preferred one first.
        rebalance_timeout_s: Seconds that a rebalance waits for it.
        session: Ends when it stays silent.
        assignment: What the leader gave it.
        taken_bytes: What is counted of it.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocols: Mapping[str, bytes]
    rebalance_timeout_s: float
    session: Session
    assignment: bytes = b""
    taken_bytes: int = 0


@dataclass(slots=True)
class Members:
    """All members of one group, in the order in which they became known.

    Attributes:
        budget: Where what they hold is counted.
        pending: The sessions of ids that were given out and did not join yet.
    """

    budget: Budget
    pending: dict[str, Session] = field(default_factory=dict[str, Session])
    _by_id: dict[str, Member] = field(default_factory=dict[str, Member])
    _by_instance: dict[str, Member] = field(default_factory=dict[str, Member])
    _supporters: Counter[str] = field(default_factory=Counter[str])  # of each protocol
    _timeouts_s: Counter[float] = field(default_factory=Counter[float])  # for the rebalance

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    @property
    def known(self) -> int:
        """How many a rebalance waits for: those that joined, and those that were given an id."""
        return len(self._by_id) + len(self.pending)

    def new_id(self, name: str) -> str:
        """Make an id that begins with the client's or the instance's name."""
        return f"{name}-{uuid4()}"

    def get(self, member_id: str) -> Member | None:
        """Return the member with this id, if it has joined."""
        return self._by_id.get(member_id)

    def instance(self, instance_id: str | None) -> Member | None:
        """Return the static member of this instance."""
        return None if instance_id is None else self._by_instance.get(instance_id)

    def find(self, member_id: str, instance_id: str | None = None) -> Member:
        """Return the member that a request names. O(1).

        Raises:
            ProtocolError: ``unknown_member_id``, or ``fenced_instance_id`` if its instance has joined anew.
        """
        if instance_id is not None:
            static = self._by_instance.get(instance_id)
            if static is not None and static.id != member_id:
                raise ProtocolError(
                    ErrorCode.fenced_instance_id,
                    f"the instance {instance_id!r} is the member {static.id!r} now, got {member_id!r}; "
                    "let only one consumer run under an instance id",
                )
            member = static
        else:
            member = self._by_id.get(member_id)
        if member is None:
            raise unknown_member(member_id, instance_id)
        return member

    def give(self, member_id: str, session: Session) -> None:
        """Keep an id that is given out. O(1).

        Raises:
            ProtocolError: As `add`.
        """
        self.budget.take(_pending_bytes(member_id))
        self.pending[member_id] = session

    def take_back(self, member_id: str) -> None:
        """Forget an id that was given out, if it was. O(1)."""
        session = self.pending.pop(member_id, None)
        if session is not None:
            session.end()
            self.budget.take(-_pending_bytes(member_id))

    def add(self, member: Member) -> None:
        """Add a member that has joined for the first time. O(protocols).

        Raises:
            ProtocolError: ``group_max_size_reached`` if the groups hold too many bytes.
        """
        self._hold(member, member.protocols)
        self._by_id[member.id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member
        self._count(member)

    def remove(self, member: Member) -> None:
        """Remove a member, and end its session. O(protocols)."""
        member.session.end()
        self.budget.take(-member.taken_bytes)
        del self._by_id[member.id]
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        self._discount(member)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id; the former one is unknown from now on. O(1)."""
        del self._by_id[member.id]
        member.id = member_id
        self._by_id[member_id] = member

    def update(self, member: Member, protocols: Mapping[str, bytes], rebalance_timeout_s: float) -> None:
        """Replace what a member supports, and how long a rebalance waits for it. O(protocols).

        Raises:
            ProtocolError: As `add`; nothing changes.
        """
        self._hold(member, protocols)
        self._discount(member)
        member.protocols, member.rebalance_timeout_s = protocols, rebalance_timeout_s
        self._count(member)

    def supports_one_of(self, protocols: Mapping[str, bytes], *, besides: Member | None = None) -> bool:
        """Whether all members, ``besides`` one, support one of these. O(protocols)."""
        others = len(self) - (besides is not None)
        return any(
            self._supporters[name] - (besides is not None and name in besides.protocols) == others
            for name in protocols
        )

    def choose_protocol(self) -> str:
        """Return the protocol, of those that all support, that most members prefer. O(members x protocols)."""
        common = {name for name, supporters in self._supporters.items() if supporters == len(self)}
        votes = Counter(next(name for name in member.protocols if name in common) for member in self)
        return votes.most_common(1)[0][0]

    def rebalance_timeout_s(self) -> float:
        """Return the longest of the members' rebalance timeouts. O(different timeouts)."""
        return max(self._timeouts_s, default=0.0)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Give each member its assignment, by id; empty for one without. O(members).

        Raises:
            ProtocolError: As `add`; nothing changes.
        """
        given = {member: assignments.get(member.id, b"") for member in self}
        more = {member: len(assignment) - len(member.assignment) for member, assignment in given.items()}
        self.budget.take(sum(more.values()))
        for member, assignment in given.items():
            member.assignment = assignment
            member.taken_bytes += more[member]

    def _hold(self, member: Member, protocols: Mapping[str, bytes]) -> None:
        """Count what a member holds with these protocols."""
        texts = (member.id, member.instance_id or "", member.client_id, *protocols)
        held = sum(map(len, texts)) + sum(map(len, protocols.values())) + len(member.assignment)
        self.budget.take(MEMBER_BYTES + held - member.taken_bytes)
        member.taken_bytes = MEMBER_BYTES + held

    def _count(self, member: Member) -> None:
        self._supporters.update(member.protocols.keys())
        self._timeouts_s[member.rebalance_timeout_s] += 1

    def _discount(self, member: Member) -> None:
        self._supporters.subtract(member.protocols.keys())
        self._timeouts_s[member.rebalance_timeout_s] -= 1
        self._supporters, self._timeouts_s = +self._supporters, +self._timeouts_s  # drops what counts 0


def _pending_bytes(member_id: str) -> int:
    return MEMBER_BYTES + len(member_id)


def unknown_member(member_id: str, instance_id: str | None = None) -> ProtocolError:
    """The error for a member that never joined, left, or lost its session."""
    name = repr(member_id) if instance_id is None else f"{member_id!r} of the instance {instance_id!r}"
    return ProtocolError(
        ErrorCode.unknown_member_id,
        f"the member {name} has left, expired or never joined; join without an id",
    )
