"""What changes topics: only the broker that is the controller may, and it publishes the change.

Kafka's controller. A broker that is not refuses, with not_controller; clients ask another one then.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.delayed_write import PartitionStatus
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.replication.cluster import Cluster
from purgatory_async.kafka.topics import Topic, Topics

__all__ = ["Controller"]


class Controller:
    """Creates, alters and deletes the topics of a cluster.

    Args:
        topics: The topics of this broker.
        cluster: Who the controller is, and where the others are metadata.
        drop: Deletes a topic and all that belongs to it here.
    """

    def __init__(self, topics: Topics, cluster: Cluster, drop: Callable[[Topic], None]) -> None:
        self._topics: Final = topics
        self._cluster: Final = cluster
        self._drop: Final = drop

    @property
    def is_here(self) -> bool:
        """Whether this broker is the controller."""
        return self._cluster.controller == self._cluster.id

    def create(
        self,
        name: str,
        placement: Sequence[Sequence[int]] | None = None,
        configs: Overrides = MappingProxyType({}),
    ) -> Topic:
        """Create a topic, and publish it to the other brokers; see `Topics.create`.

        Raises:
            ProtocolError: As `Topics.create`, or not_controller.
        """
        self._check()
        topic = self._topics.create(name, placement, configs)
        self._cluster.publish(topic)
        return topic

    def alterable(self, name: str) -> Topic:
        """Find a topic to alter.

        Raises:
            ProtocolError: As `Topics.find`; not_controller, or invalid_topic_exception for the brokers' own.
        """
        self._check()
        topic = self._topics.find(name)
        if topic.internal:
            raise ProtocolError(
                ErrorCode.invalid_topic_exception, f"a topic of the brokers must stay as it is, got {name!r}"
            )
        return topic

    def enlarge(self, topic: Topic, placement: Sequence[Sequence[int]]) -> None:
        """Add partitions to an `alterable` topic, placed after the present ones, and publish them."""
        self._topics.enlarge(topic, [*(part.replicas for part in topic.partitions), *placement])
        self._cluster.publish(topic)

    def configure(self, configs: Mapping[Topic, Overrides]) -> None:
        """Replace the own configs of `alterable` topics, and publish all at once."""
        for topic, overrides in configs.items():
            self._topics.configure(topic, overrides)
        self._cluster.publish(*configs)

    def delete(self, topic: Topic) -> None:
        """Delete a topic and the offsets committed for it, and publish that.

        Requests that wait for its partitions end with unknown_topic_or_partition.

        Raises:
            ProtocolError: not_controller, or invalid_topic_exception for the brokers' own.
        """
        self._drop(self.alterable(topic.name))
        self._cluster.publish_deleted(topic)

    def unpublished(self) -> PartitionStatus | None:
        """What to wait for until the brokers in sync know of all changes; None if they do."""
        metadata = self._cluster.metadata
        if metadata is None or metadata.high_watermark >= metadata.log.end:
            return None
        return PartitionStatus(metadata, metadata.log.end, metadata.log.end)

    def _check(self) -> None:
        if not self.is_here:
            raise ProtocolError(
                ErrorCode.not_controller,
                f"topics must be created and deleted by broker {self._cluster.controller}, "
                f"got {self._cluster.id}",
            )
