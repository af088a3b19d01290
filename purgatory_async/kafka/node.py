"""A broker without its sockets: topics, groups, and the purgatories where requests wait.

Kafka's ReplicaManager. Handlers take it; whatever changes a partition calls `changed`, so that what waits for it is
checked.
"""

import time
import uuid
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from typing import Any, Final
from zlib import crc32

from purgatory_async import Observer, Purgatory, Timer
from purgatory_async.kafka.absent import Absences
from purgatory_async.kafka.controller import Controller
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.finder import Finder
from purgatory_async.kafka.groups.coordinator import Coordinator
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.cluster import Cluster
from purgatory_async.kafka.settings import Settings
from purgatory_async.kafka.topics import Topic, Topics

__all__ = ["CONSUMER", "DEBUGGER", "Node"]

CONSUMER: Final = -1
"""In place of a follower's number: of a consumer."""

DEBUGGER: Final = -2
"""The replica id of a tool that reads from followers, too."""


class Node:
    """The state of one broker.

    Args:
        settings: Limits and defaults.
        id: The broker's number in the cluster.
        brokers: The numbers of all brokers; None for this one alone.
        epoch: Greater than at any start before, if the cluster has other brokers that may remember those.
        timer: Expires what waits; if not given, it makes its own and closes it.
        observer: The observer of all purgatories.

    Attributes:
        produce: Requests with acks=all, until their records are replicated. Keys: partitions.
        fetch: Requests with too little to return. Keys: partitions; for followers also the names of their topics.
        delete_records: Requests, until every replica in sync has deleted. Keys: partitions.
        rebalance: Members that join or sync. Keys: see the group's operations.
        groups: The groups that this broker coordinates.
        absences: What clients asked for in vain.
        cluster: What this broker knows of the others.
        controller: Changes topics, if this broker is the controller.
        finder: Finds records by time.
        addresses: Host and port of every broker, by its number.
        ask_for_topic: Has the controller create a topic.
        ask_controller: Asks the controller a request, by its api, its version and its fields.
        now_ms: The time that records get, in milliseconds since 1970: as clients have it; the timer has another one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        id: int = 0,  # noqa: A002 - Kafka's name
        brokers: Collection[int] | None = None,
        epoch: int = 0,
        timer: Timer | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.id: Final = id
        self.absences: Final = Absences()
        self.settings: Final = settings
        named = ",".join(map(str, sorted(brokers))) if brokers and len(brokers) > 1 else uuid.uuid4().hex
        self.cluster_id: Final = uuid.uuid5(uuid.NAMESPACE_OID, named).hex[:22]
        self.timer: Final = Timer() if timer is None else timer
        self._owns_timer: Final = timer is None
        self.produce: Final = Purgatory("Produce", timer=self.timer, observer=observer)
        self.fetch: Final = Purgatory("Fetch", timer=self.timer, observer=observer)
        self.delete_records: Final = Purgatory("DeleteRecords", timer=self.timer, observer=observer)
        self.rebalance: Final = Purgatory("Rebalance", timer=self.timer, observer=observer)
        self.groups: Final = Coordinator(
            self.rebalance,
            initial_delay_s=settings.rebalance_delay,
            min_session_s=settings.min_session_timeout,
            max_session_s=settings.max_session_timeout,
            max_groups=settings.max_groups,
            max_members=settings.max_members,
            max_bytes=settings.max_group_bytes,
        )
        self.topics: Final = Topics(
            settings,
            brokers=(id,) if brokers is None else brokers,
            now=self.timer.time,
            id=id,
            epoch=epoch,
        )
        self.topics.on_added.append(self._end_fetches_for)
        self.cluster: Final = Cluster(id, self.topics, drop=self._drop_topic, moved=self.changed)
        self.controller: Final = Controller(self.topics, self.cluster, self._drop_topic)
        self.finder: Final = Finder()
        self.addresses: dict[int, tuple[str, int]] = {}
        self.ask_for_topic: Callable[[str], None] = _ask_no_other
        self.ask_controller: Callable[..., Awaitable[Any]] = _reach_no_other
        self.now_ms: Callable[[], int] = _now_ms
        among = self.cluster.brokers
        self._producer_ids: Final = count((epoch << 32) + 1 + among.index(id), len(among))

    @property
    def purgatories(self) -> tuple[Purgatory, ...]:
        """All of them, by their names in Kafka's metrics."""
        return self.produce, self.fetch, self.delete_records, self.rebalance

    def new_producer_id(self) -> int:
        """A number that no producer of any broker has."""
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

    def readable(self, topic: str, index: int, replica: int) -> Partition:
        """Find a partition to read: as its leader, or as any broker for a `DEBUGGER` or for the leader. O(1).

        Raises:
            ProtocolError: As `led`.
        """
        partition = self.topics.partition(topic, index)
        if replica in {DEBUGGER, partition.leader}:
            return partition
        return self.led(topic, index)

    def writable(self, topic: str, index: int) -> Partition:
        """As `led`, for what clients change.

        Raises:
            ProtocolError: As `led`, or invalid_topic_exception for the brokers' own topic.
        """
        partition = self.led(topic, index)
        if partition is self.cluster.metadata:
            raise ProtocolError(
                ErrorCode.invalid_topic_exception,
                f"a client's topic must not be the brokers' own, got {topic!r}",
            )
        return partition

    def topic_for(self, name: str) -> Topic:
        """Find a topic, or create it if that is allowed.

        Raises:
            ProtocolError: It does not exist and may not be created; leader_not_available while the controller is
                asked to create it.
        """
        if name in self.topics or not self.settings.auto_create:
            return self.topics.find(name)
        if self.controller.is_here:
            return self.controller.create(name)
        self.topics.check_new(name)
        self.ask_for_topic(name)
        raise ProtocolError(
            ErrorCode.leader_not_available,
            f"topic {name!r} must exist, and is being created by broker {self.cluster.controller}; ask again",
        )

    def followed(self, partition: Partition, replica: int, offset: int, start: int) -> None:
        """Take a follower's fetch of a partition that this broker leads; see `Partition.follow`.

        Raises:
            ProtocolError: As `Partition.follow`.
        """
        was_in_sync = replica in partition.followers.in_sync
        moved = partition.follow(replica, offset, start, self.timer.time())
        if was_in_sync != (replica in partition.followers.in_sync):
            self.cluster.publish_in_sync(partition)
        if moved:
            self.changed(partition)

    def drop_laggards(self) -> None:
        """Take followers out of sync that lag; see `Partition.drop_laggards`. O(partitions)."""
        now, lag = self.timer.time(), self.settings.replica_lag
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.leader == self.id and partition.drop_laggards(now, lag):
                    self.cluster.publish_in_sync(partition)
                    self.changed(partition)

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

    def appended(self, partition: Partition, end: int) -> None:
        """Check what waits for records appended up to ``end``.

        Without followers in sync the high watermark has moved; otherwise only fetches can care, and walking all held
        produces for each new one would take quadratic time. O(waiting fetches), or as `changed`.
        """
        if partition.high_watermark >= end:
            self.changed(partition)
        else:
            self.fetch.check_and_complete(partition)

    def changed(self, partition: Partition) -> None:
        """Check what waits for a partition, after its records, its high watermark or its start moved.

        O(waiting requests).
        """
        self.produce.check_and_complete(partition)
        self.fetch.check_and_complete(partition)
        self.delete_records.check_and_complete(partition)

    def close(self) -> None:
        """End every wait; closing again does nothing."""
        self.groups.close()
        for purgatory in self.purgatories:
            purgatory.close()
        if self._owns_timer:
            self.timer.close()

    def _end_fetches_for(self, topic: Topic) -> None:
        """Answer followers that asked for a topic before this broker knew it; they ask again."""
        self.fetch.complete_for_key(topic.name)

    def _drop_topic(self, topic: Topic) -> None:
        self.topics.delete(topic)
        self.groups.forget_topic(topic.name)
        self.fetch.check_and_complete(topic.name)
        for partition in topic.partitions:
            self.changed(partition)


def _ask_no_other(name: str) -> None:
    """For a controller, or a broker whose replication has not begun: the client asks again."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _reach_no_other(api_key: int, version: int, **values: object) -> Any:
    """Refuse to ask the controller: this broker has no other."""
    raise ConnectionError(f"no controller can be asked for api {api_key} version {version} yet, got {values}")
