"""FindCoordinator, DescribeGroups, ListGroups, DeleteGroups and OffsetDelete: groups from outside."""

from typing import Any, Final

from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.members import Member
from purgatory_async.kafka.groups.offsets import TopicPartition
from purgatory_async.kafka.groups.state import GroupState
from purgatory_async.kafka.node import Node

__all__ = ["DELETE_GROUPS", "DESCRIBE_GROUPS", "FIND_COORDINATOR", "LIST_GROUPS", "OFFSET_DELETE"]

_SEVERAL_KEYS: Final = 4  # version
_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_ABSENT_KEYS: Final = {_TRANSACTION_KEY: Absence.TRANSACTIONS, 2: Absence.SHARE_GROUPS}


def _find_coordinator(node: Node, request: Any, client: Client) -> Answer:
    """Name the broker that coordinates a group or, from version 4, several groups."""
    key_type = getattr(request, "key_type", _GROUP_KEY)
    absence = _ABSENT_KEYS.get(key_type)
    if absence is not None:
        node.absences.log(absence, client)
    if request.__version__ < _SEVERAL_KEYS:
        return _coordinator(node, request.key, key_type)
    return {
        "coordinators": [
            {"key": key, **_coordinator(node, key, key_type)} for key in request.coordinator_keys
        ]
    }


def _coordinator(node: Node, key: str, key_type: int) -> dict[str, Any]:
    if key_type != _GROUP_KEY:
        # librdkafka asks again after any other error; this one ends its init_transactions at once.
        code = (
            ErrorCode.transactional_id_authorization_failed
            if key_type == _TRANSACTION_KEY
            else ErrorCode.invalid_request
        )
        absence = _ABSENT_KEYS.get(key_type)
        return _no_coordinator(
            code, f"{absence or f'key_type must be {_GROUP_KEY}, a group, got {key_type}'}"
        )
    coordinator = node.coordinator_id(key)
    if coordinator not in node.cluster.reachable:
        return _no_coordinator(
            ErrorCode.coordinator_not_available, f"broker {coordinator} must be within reach, and is not"
        )
    host, port = node.addresses[coordinator]
    return {"error_code": ErrorCode.none, "node_id": coordinator, "host": host, "port": port}


def _no_coordinator(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "node_id": -1, "host": "", "port": -1}


def _describe_groups(node: Node, request: Any, _: Client) -> Answer:
    """Describe groups and their members, each group once; an unknown group is dead."""
    return {"groups": [_described(node, group_id) for group_id in dict.fromkeys(request.groups)]}


def _described(node: Node, group_id: str) -> dict[str, Any]:
    nothing = {"group_id": group_id, "protocol_type": "", "protocol_data": "", "members": ()}
    try:
        group = node.coordinator_of(group_id).find(group_id)
    except ProtocolError as error:
        return nothing | {"error_code": error.code, "group_state": ""}
    if group is None:
        return nothing | {"error_code": ErrorCode.none, "group_state": GroupState.DEAD}
    stable = group.state is GroupState.STABLE
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name if stable else "",
        "members": [_member(member, group.protocol_name if stable else "") for member in group.members],
    }


def _member(member: Member, protocol: str) -> dict[str, Any]:
    """Describe a member; between generations, without a protocol, there is no assignment to show."""
    return {
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.protocols.get(protocol, b""),
        "member_assignment": member.assignment if protocol else b"",
    }


def _list_groups(node: Node, request: Any, _: Client) -> Answer:
    """List the groups that this broker coordinates; from version 4 only those in the states given, if any."""
    wanted = {state.lower() for state in getattr(request, "states_filter", ())}
    return {
        "error_code": ErrorCode.none,
        "groups": [
            {"group_id": group.id, "protocol_type": group.protocol_type, "group_state": group.state}
            for group in node.groups
            if not wanted or group.state.lower() in wanted
        ],
    }


def _delete_groups(node: Node, request: Any, _: Client) -> Answer:
    """Delete groups without members, each once."""
    return {
        "results": [
            {"group_id": group_id, "error_code": _deleted(node, group_id)}
            for group_id in dict.fromkeys(request.groups_names)
        ]
    }


def _deleted(node: Node, group_id: str) -> ErrorCode:
    try:
        node.coordinator_of(group_id).delete(group_id)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


def _offset_delete(node: Node, request: Any, _: Client) -> Answer:
    """Delete committed offsets, but for the topics that members are subscribed to."""
    places = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    try:
        kept = node.coordinator_of(request.group_id).forget(request.group_id, places)
    except ProtocolError as error:
        return {"error_code": error.code, "topics": ()}
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": _forgotten(node, (topic.name, part.partition_index), kept),
                    }
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _forgotten(node: Node, place: TopicPartition, kept: frozenset[TopicPartition]) -> ErrorCode:
    if place in kept:
        return ErrorCode.group_subscribed_to_topic
    try:
        node.topics.partition(*place)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


DELETE_GROUPS: Final = Api(42, 0, 2, _delete_groups)
OFFSET_DELETE: Final = Api(47, 0, 0, _offset_delete)
FIND_COORDINATOR: Final = Api(10, 0, 4, _find_coordinator)
DESCRIBE_GROUPS: Final = Api(15, 0, 5, _describe_groups)
LIST_GROUPS: Final = Api(16, 0, 4, _list_groups)
