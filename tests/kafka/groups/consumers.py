"""Consumers of one coordinator, in virtual time and without sockets."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.coordinator import Coordinator
from purgatory_async.kafka.groups.group import Group
from purgatory_async.kafka.groups.joining import Joined, JoinRequest
from purgatory_async.kafka.groups.members import MemberIdRequiredError
from purgatory_async.testing import settle

T = TypeVar("T")

SESSION_S = 10.0
REBALANCE_S = 60.0
DELAY_S = 3.0
RANGE = {"range": b"topics"}


def a_join(name: str = "c", **fields: Any) -> JoinRequest:
    """The request of a client that does not come back for its id, unless told."""
    settings = {
        "client_id": name,
        "session_timeout_s": SESSION_S,
        "rebalance_timeout_s": REBALANCE_S,
        "protocols": RANGE,
        "returns_with_id": False,
    }
    return JoinRequest(**(settings | fields))


async def sending(request: Callable[[Group, str], Any], group: Group, member_id: str) -> None:
    """Send a member's request, of those that wait or those that do not."""
    answer = request(group, member_id)
    if answer is not None:
        await answer


async def code_of(task: "asyncio.Task[Any]") -> str:
    """How a request stands: ``held``, ``none`` or the name of its error."""
    await settle()
    if not task.done():
        return "held"
    try:
        await task
    except ProtocolError as refused:
        return refused.code.name
    return ErrorCode.none.name


async def got(task: "asyncio.Task[T]") -> T:
    """What a request was answered; a held one fails the test instead of hanging it."""
    await settle()
    assert task.done(), "the request is held"
    return await task


class Consumers:
    """What consumers do with the group ``g``.

    Args:
        purgatory: The Rebalance purgatory.
        clock: Its timer's.
        settings: For the coordinator.
    """

    def __init__(self, purgatory, clock, **settings: Any) -> None:
        self.clock = clock
        self.coordinator = Coordinator(purgatory, **({"initial_delay_s": 0} | settings))

    @property
    def group(self) -> Group:
        group = self.coordinator.find("g")
        assert group is not None
        return group

    async def join(self, name: str = "c", **fields: Any) -> "asyncio.Task[Joined]":
        """Send a join; it may be held."""
        task = asyncio.create_task(self.coordinator.join("g", a_join(name, **fields)))
        await settle()
        return task

    async def id_of(self, name: str = "c", **fields: Any) -> str:
        """Be given an id, as a client of version 4 or later."""
        try:
            await got(await self.join(name, returns_with_id=True, **fields))
        except MemberIdRequiredError as given:
            return given.member_id
        raise AssertionError("a new member was given no id")

    async def sync(
        self, member_id: str, *, generation: int | None = None, **fields: Any
    ) -> "asyncio.Task[Any]":
        """Send a sync of the present generation; the leader gives each member its own id."""
        group = self.group
        assignments = {member.id: member.id.encode() for member in group.members}
        task = asyncio.create_task(
            group.sync(
                member_id,
                group.generation if generation is None else generation,
                assignments if member_id == group.leader_id else {},
                **fields,
            )
        )
        await settle()
        return task

    async def let_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await settle()

    async def completing(self, *names: str, **fields: Any) -> list[str]:
        """Let members join one generation; the first leads. Returns their ids."""
        ids = [await self.id_of(name, **fields) for name in names]
        joins = [await self.join(name, member_id=id_, **fields) for name, id_ in zip(names, ids, strict=True)]
        assert {(await got(join)).leader_id for join in joins} == {ids[0]}
        return ids

    async def stable(self, *names: str, **fields: Any) -> list[str]:
        """Let members join and sync. Returns their ids."""
        ids = await self.completing(*names, **fields)
        for id_ in ids:
            await self.sync(id_)
        assert self.group.state == "Stable"
        return ids
