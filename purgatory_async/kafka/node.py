"""A broker without its sockets: topics, groups, and the purgatories where requests wait.

Kafka's ReplicaManager. Handlers take it; whatever changes a partition calls `changed`, so that what waits for it is
checked.
"""

import uuid
from collections.abc import Sequence
from itertools import count
from typing import Final
from zlib import crc32

from purgatory_async import Purgatory, Timer
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.coordinator import Coordinator
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.settings import Settings
from purgatory_async.kafka.topics import Topic, Topics

__all__ = ["Node"]


class Node:
    """The state of one broker.

    Args:
        settings: Limits and defaults.
        id: The broker's number in the cluster.
        brokers: The numbers of all brokers; None for this one alone.
        timer: Expires what waits; if not given, it makes its own and closes it.

    Attributes:
        produce: Requests with acks=all, until their records are replicated. Keys: partitions.
        fetch: Requests with too little to return. Keys: partitions.
        delete_records: Requests, until every replica in sync has deleted. Keys: partitions.
        rebalance: Members that join or sync. Keys: see the group's operations.
        groups: The groups that this broker coordinates.
        addresses: Host and port of every broker, by its number.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        id: int = 0,  # noqa: A002 - Kafka's name
        brokers: Sequence[int] | None = None,
        timer: Timer | None = None,
    ) -> None:
        self.id: Final = id
        self.settings: Final = settings
        self.cluster_id: Final = uuid.uuid4().hex[:22]
        self.timer: Final = Timer() if timer is None else timer
        self._owns_timer: Final = timer is None
        self.produce: Final = Purgatory("Produce", timer=self.timer)
        self.fetch: Final = Purgatory("Fetch", timer=self.timer)
        self.delete_records: Final = Purgatory("DeleteRecords", timer=self.timer)
        self.rebalance: Final = Purgatory("Rebalance", timer=self.timer)
        self.groups: Final = Coordinator(
            self.rebalance,
            initial_delay_s=settings.rebalance_delay,
            max_groups=settings.max_groups,
            max_members=settings.max_members,
        )
        self.topics: Final = Topics(
            settings, brokers=(id,) if brokers is None else brokers, now=self.timer.time
        )
        self.addresses: dict[int, tuple[str, int]] = {}
        self._producer_ids: Final = count(1)

    def new_producer_id(self) -> int:
        """A number that no producer has."""
        return next(self._producer_ids)

    def led(self, topic: str, index: int) -> Partition:
        """Find a partition that this broker leads. O(1).

        Raises:
            ProtocolError: unknown_topic_or_partition, or not_leader_or_follower.
        """
        partition = self.topics.partition(topic, index)
        if partition.leader != self.id:
            raise ProtocolError(
                ErrorCode.not_leader_or_follower,
                f"partition {index} of {topic!r} must be asked of its leader {partition.leader}, got {self.id}",
            )
        return partition

    def topic_for(self, name: str) -> Topic:
        """Find a topic, or create it if that is allowed.

        Raises:
            ProtocolError: It does not exist and may not be created.
        """
        if name not in self.topics and self.settings.auto_create:
            return self.topics.create(name)
        return self.topics.find(name)

    def coordinator_id(self, group_id: str) -> int:
        """Return the broker that coordinates a group; all brokers agree on it. O(brokers)."""
        brokers = sorted(self.addresses)
        return brokers[crc32(group_id.encode()) % len(brokers)]

    def coordinator_of(self, group_id: str) -> Coordinator:
        """Return the coordinator of a group, which must be this broker's.

        Raises:
            ProtocolError: ``not_coordinator``.
        """
        coordinator = self.coordinator_id(group_id)
        if coordinator != self.id:
            raise ProtocolError(
                ErrorCode.not_coordinator,
                f"the group {group_id!r} must be asked of broker {coordinator}, got broker {self.id}; "
                "find its coordinator again",
            )
        return self.groups

    def changed(self, partition: Partition) -> None:
        """Check what waits for a partition, after its records, its high watermark or its start moved.

        O(waiting requests).
        """
        self.produce.check_and_complete(partition)
        self.fetch.check_and_complete(partition)
        self.delete_records.check_and_complete(partition)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic and the offsets committed for it.

        Requests that wait for its partitions end with unknown_topic_or_partition.
        """
        self.topics.delete(topic)
        self.groups.forget_topic(topic.name)
        for partition in topic.partitions:
            self.changed(partition)

    def close(self) -> None:
        """End every wait; closing again does nothing."""
        self.groups.close()
        for purgatory in (self.produce, self.fetch, self.delete_records, self.rebalance):
            purgatory.close()
        if self._owns_timer:
            self.timer.close()
