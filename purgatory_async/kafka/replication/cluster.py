"""The cluster as one of its brokers knows it: topics, who is in sync, and which brokers are within reach.

Each broker leads one partition of an internal topic, and the others follow it as any partition. There a broker
publishes what it decides: the controller, which is the broker with the least number, which topics exist; every leader,
which of its followers are in sync. So what one broker publishes reaches each other broker once, in its order, also
after either has been away.
"""

import sys
from collections.abc import Callable
from typing import Final
from uuid import UUID

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.change import Change, InSync, PublishedTopic, read_changes
from purgatory_async.kafka.segments import Bytes
from purgatory_async.kafka.topics import Topic, Topics

__all__ = ["Cluster"]

_INTERNAL: Final = "__cluster_metadata"
_SPARE_BYTES: Final = 1 << 16  # of changes, before they are published anew as one


class Cluster:
    """All brokers.

    Args:
        id: The broker that knows this.
        topics: Changed by what the controller publishes.
        drop: Deletes a topic and all that belongs to it.
        moved: Called when its own partition of the internal topic has moved.

    Attributes:
        brokers: All of them, in order.
        controller: The broker that creates and deletes topics.
        reachable: The brokers that answer.
    """

    def __init__(
        self,
        id: int,  # noqa: A002 - Kafka's name
        topics: Topics,
        *,
        drop: Callable[[Topic], None],
        moved: Callable[[Partition], None],
    ) -> None:
        self.id: Final = id
        self.brokers: Final = topics.brokers
        self.controller: Final = self.brokers[0]
        self.reachable: Final = {id}
        self._topics: Final = topics
        self._drop: Final = drop
        self._moved: Final = moved
        self._in_sync: Final[dict[int, dict[tuple[str, int], tuple[int, ...]]]] = {
            broker: {} for broker in self.brokers
        }
        self._metadata: Partition | None = None  # where this broker publishes
        self._most_bytes = _SPARE_BYTES
        if len(self.brokers) > 1:
            self._metadata = self._open()
            self.publish_everything()

    @property
    def metadata(self) -> Partition | None:
        """Its own partition of the internal topic: the others know all up to its high watermark."""
        return self._metadata

    def metadata_of(self, broker: int) -> Partition:
        """The partition of the internal topic where a broker publishes. O(1)."""
        return self._topics.partition(_INTERNAL, self.brokers.index(broker))

    def in_sync(self, topic: Topic, partition: Partition) -> tuple[int, ...]:
        """The brokers in sync, as the partition's leader published last. O(replicas)."""
        if partition.leader == self.id:
            return partition.replicas_in_sync
        return self._in_sync[partition.leader].get((str(topic.id), partition.index), partition.replicas)

    def publish(self, *topics: Topic) -> None:
        """Publish topics that are new, or have changed."""
        self._publish(Change(topics=tuple(map(_published, topics))))

    def publish_deleted(self, topic: Topic) -> None:
        """Publish that a topic is gone."""
        self._publish(Change(deleted=(str(topic.id),)))

    def publish_in_sync(self, partition: Partition) -> None:
        """Publish who is in sync for a partition that this broker leads."""
        if partition.topic != _INTERNAL:
            topic = self._topics.find(partition.topic)
            self._publish(Change(in_sync=(_in_sync(topic, partition),)))

    def learn(self, partition: Partition, batches: Bytes) -> None:
        """Apply what the leader of a partition of the internal topic published; ignore other topics' records."""
        if partition.topic == _INTERNAL:
            for change in read_changes(bytes(batches)):
                self._apply(partition.leader, change)

    def _apply(self, publisher: int, change: Change) -> None:
        in_sync = self._in_sync[publisher]
        if change.everything:
            in_sync.clear()
        if publisher == self.controller:
            known = {str(topic.id): topic for topic in self._topics if not topic.internal}
            gone = known.keys() - {one.id for one in change.topics} if change.everything else change.deleted
            for topic_id in gone:
                if topic_id in known:
                    self._drop(known[topic_id])
            for one in change.topics:
                if one.id in known:
                    self._topics.configure(known[one.id], one.configs)
                    self._topics.enlarge(known[one.id], one.placement)
                else:
                    self._topics.add(one.name, UUID(one.id), one.placement, one.configs)
        for one_set in change.in_sync:
            in_sync[one_set.topic_id, one_set.index] = one_set.replicas

    def _open(self) -> Partition:
        """Create the internal topic: one partition for each broker, on all brokers."""
        placement = [
            (leader, *(other for other in self.brokers if other != leader)) for leader in self.brokers
        ]
        topic = self._topics.add(_INTERNAL, UUID(int=0), placement, internal=True, budget=Budget(sys.maxsize))
        return topic.partitions[self.brokers.index(self.id)]

    def _publish(self, change: Change) -> None:
        if self._metadata is None:
            return
        batch = change.encode()
        self._metadata.append(batch, acks_all=False)
        if self._metadata.log.size_bytes > self._most_bytes:
            self.publish_everything()
        self._moved(self._metadata)

    def publish_everything(self) -> None:
        """Publish the whole state, and delete what was published before, or it would grow for ever."""
        assert self._metadata is not None, f"broker {self.id} has no other to publish to"
        mine = [topic for topic in self._topics if not topic.internal]
        change = Change(
            everything=True,
            topics=tuple(map(_published, mine)) if self.id == self.controller else (),
            in_sync=tuple(
                _in_sync(topic, partition)
                for topic in mine
                for partition in topic.partitions
                if partition.leader == self.id and partition.replicas_in_sync != partition.replicas
            ),
        )
        batch = change.encode()
        offset, _ = self._metadata.append(batch, acks_all=False)
        self._metadata.log.trim(offset)
        self._most_bytes = 2 * len(batch) + _SPARE_BYTES


def _published(topic: Topic) -> PublishedTopic:
    placement = tuple(part.replicas for part in topic.partitions)
    return PublishedTopic(topic.name, str(topic.id), placement, dict(topic.configs))


def _in_sync(topic: Topic, partition: Partition) -> InSync:
    return InSync(str(topic.id), partition.index, partition.replicas_in_sync)
