"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what the members of a group send."""

from datetime import timedelta
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.group import Group
from purgatory_async.kafka.groups.joining import Joined, JoinRequest
from purgatory_async.kafka.groups.members import MemberIdRequiredError
from purgatory_async.kafka.node import Node

__all__ = ["HEARTBEAT", "JOIN_GROUP", "LEAVE_GROUP", "SYNC_GROUP"]

_RETURNS_WITH_ID: Final = 4  # versions
_SKIPS_ASSIGNMENT: Final = 9


async def _join_group(node: Node, request: Any, client: Client) -> Answer:
    """Join, and wait until the generation begins."""
    try:
        joined = await node.coordinator_of(request.group_id).join(request.group_id, _asked(request, client))
    except ProtocolError as error:
        member_id = error.member_id if isinstance(error, MemberIdRequiredError) else request.member_id
        return {
            "error_code": error.code,
            "generation_id": -1,
            "protocol_name": None,
            "leader": "",
            "member_id": member_id,
            "members": (),
        }
    return _joined(joined)


def _asked(request: Any, client: Client) -> JoinRequest:
    rebalance_timeout: timedelta | None = getattr(request, "rebalance_timeout", None)
    if rebalance_timeout is not None and rebalance_timeout < timedelta():
        rebalance_timeout = None
    return JoinRequest(
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        client_id=client.id,
        client_host=client.host,
        session_timeout_s=request.session_timeout.total_seconds(),
        rebalance_timeout_s=None if rebalance_timeout is None else rebalance_timeout.total_seconds(),
        protocol_type=request.protocol_type,
        protocols={protocol.name: protocol.metadata for protocol in request.protocols},
        returns_with_id=request.__version__ >= _RETURNS_WITH_ID,
        skips_assignment=request.__version__ >= _SKIPS_ASSIGNMENT,
    )


def _joined(joined: Joined) -> Answer:
    return {
        "error_code": ErrorCode.none,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol_name,
        "leader": joined.leader_id,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [
            {"member_id": member.id, "group_instance_id": member.instance_id, "metadata": member.metadata}
            for member in joined.members
        ],
    }


async def _sync_group(node: Node, request: Any, _: Client) -> Answer:
    """Hand out assignments, or wait for one's own."""
    try:
        synced = await _group_of(node, request, request.member_id).sync(
            request.member_id,
            request.generation_id,
            {given.member_id: given.assignment for given in request.assignments},
            instance_id=getattr(request, "group_instance_id", None),
            protocol_type=getattr(request, "protocol_type", None),
            protocol_name=getattr(request, "protocol_name", None),
        )
    except ProtocolError as error:
        return {"error_code": error.code, "assignment": b""}
    return {
        "error_code": ErrorCode.none,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol_name,
        "assignment": synced.assignment,
    }


def _heartbeat(node: Node, request: Any, _: Client) -> Answer:
    """Keep a session; tell the member when it must join again."""
    try:
        _group_of(node, request, request.member_id).heartbeat(
            request.member_id,
            request.generation_id,
            instance_id=getattr(request, "group_instance_id", None),
        )
    except ProtocolError as error:
        return {"error_code": error.code}
    return {"error_code": ErrorCode.none}


def _leave_group(node: Node, request: Any, _: Client) -> Answer:
    """Remove a member or, from version 3, several."""
    if not hasattr(request, "members"):
        return {"error_code": _leave(node, request, request.member_id, None)}
    try:
        node.coordinator_of(request.group_id)
    except ProtocolError as error:
        return {"error_code": error.code, "members": ()}
    return {
        "error_code": ErrorCode.none,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": _leave(node, request, member.member_id, member.group_instance_id),
            }
            for member in request.members
        ],
    }


def _leave(node: Node, request: Any, member_id: str, instance_id: str | None) -> ErrorCode:
    try:
        _group_of(node, request, member_id).leave(member_id, instance_id=instance_id)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


def _group_of(node: Node, request: Any, member_id: str) -> Group:
    return node.coordinator_of(request.group_id).group_of(request.group_id, member_id)


JOIN_GROUP: Final = Api(11, 0, 9, _join_group)
HEARTBEAT: Final = Api(12, 0, 4, _heartbeat)
LEAVE_GROUP: Final = Api(13, 0, 5, _leave_group)
SYNC_GROUP: Final = Api(14, 0, 5, _sync_group)
