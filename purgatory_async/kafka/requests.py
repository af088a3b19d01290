"""The request table: from an api's key to its versions and its handler."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.handlers.absent import (
    CONSUMER_GROUP_HEARTBEAT,
    SASL_HANDSHAKE,
    SHARE_GROUP_HEARTBEAT,
)
from purgatory_async.kafka.handlers.configs import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from purgatory_async.kafka.handlers.delete_records import DELETE_RECORDS
from purgatory_async.kafka.handlers.fetch import FETCH
from purgatory_async.kafka.handlers.group_members import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from purgatory_async.kafka.handlers.group_offsets import OFFSET_COMMIT, OFFSET_FETCH
from purgatory_async.kafka.handlers.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_DELETE,
)
from purgatory_async.kafka.handlers.list_offsets import LIST_OFFSETS
from purgatory_async.kafka.handlers.log_dirs import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from purgatory_async.kafka.handlers.metadata import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from purgatory_async.kafka.handlers.produce import INIT_PRODUCER_ID, PRODUCE
from purgatory_async.kafka.handlers.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from purgatory_async.kafka.handlers.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from purgatory_async.kafka.node import Node

__all__ = ["APIS", "UNLISTED"]


def _api_versions(_: Node, request: object, client: Client) -> Answer:  # noqa: ARG001 - as every handler
    """The versions of this table."""
    return {
        "error_code": ErrorCode.none,
        "api_keys": [
            {"api_key": api.key, "min_version": api.least, "max_version": api.most} for api in APIS.values()
        ],
    }


_TABLE: Final = (
    *(PRODUCE, FETCH, LIST_OFFSETS, METADATA),
    *(OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP),
    *(DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE),
    Api(18, 0, 4, _api_versions),
    *(CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT),
    *(DESCRIBE_TOPIC_PARTITIONS, DESCRIBE_LOG_DIRS, ALTER_REPLICA_LOG_DIRS),
    *(ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS),
    *(CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS, DELETE_RECORDS),
    *(DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS),
    *(INIT_PRODUCER_ID, DESCRIBE_CLUSTER),
)

APIS: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in _TABLE})
"""Every api, by its key."""

UNLISTED: Final[Mapping[int, Api]] = MappingProxyType({SASL_HANDSHAKE.key: SASL_HANDSHAKE})
"""What is answered, but not offered to clients."""
