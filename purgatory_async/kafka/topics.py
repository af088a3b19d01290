"""Topics by name and by id."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.segments import Room
from purgatory_async.kafka.settings import Settings

__all__ = ["Topic", "Topics"]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; two of one name, created one after the other, differ by id."""

    name: str
    id: uuid.UUID
    partitions: tuple[Partition, ...]


class Topics:
    """The topics of a broker.

    Args:
        settings: Limits and defaults.
        leader: The broker that leads their partitions.
    """

    def __init__(self, settings: Settings, *, leader: int) -> None:
        self._settings: Final = settings
        self._leader: Final = leader
        self._by_name: Final[dict[str, Topic]] = {}
        self._by_id: Final[dict[uuid.UUID, Topic]] = {}
        self._partitions = 0
        self.room: Final = Room(settings.max_bytes)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Topic]:
        return iter(tuple(self._by_name.values()))

    def find(self, name: str) -> Topic:
        """Find a topic by name. O(1).

        Raises:
            ProtocolError: unknown_topic_or_partition, or invalid_topic_exception if no topic can have that name.
        """
        topic = self._by_name.get(name)
        if topic is None:
            _check_name(name)
            raise ProtocolError(
                ErrorCode.unknown_topic_or_partition, f"topic {name!r} must exist, and does not"
            )
        return topic

    def find_id(self, topic_id: uuid.UUID) -> Topic:
        """Find a topic by id. O(1).

        Raises:
            ProtocolError: unknown_topic_id.
        """
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise ProtocolError(
                ErrorCode.unknown_topic_id, f"a topic with id {topic_id} must exist, and does not"
            )
        return topic

    def partition(self, name: str, index: int) -> Partition:
        """Find a partition. O(1).

        Raises:
            ProtocolError: unknown_topic_or_partition.
        """
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise ProtocolError(
                ErrorCode.unknown_topic_or_partition,
                f"partition {index} of topic {name!r} must exist, and does not",
            )
        return topic.partitions[index]

    def check_new(self, name: str, partitions: int) -> None:
        """Check that a topic can be created.

        Raises:
            ProtocolError: invalid_topic_exception, topic_already_exists, invalid_partitions or policy_violation.
        """
        _check_name(name)
        if name in self._by_name:
            raise ProtocolError(
                ErrorCode.topic_already_exists, f"topic {name!r} exists: cannot create it again"
            )
        if partitions < 1:
            raise ProtocolError(
                ErrorCode.invalid_partitions, f"partitions must be at least 1, got {partitions}"
            )
        left = self._settings.max_partitions - self._partitions
        if partitions > left:
            raise ProtocolError(
                ErrorCode.policy_violation,
                f"partitions must be at most {left}, the rest of {self._settings.max_partitions}, got {partitions}",
            )

    def create(self, name: str, partitions: int | None = None) -> Topic:
        """Create a topic. O(partitions).

        Raises:
            ProtocolError: As `check_new`.
        """
        number = self._settings.partitions if partitions is None else partitions
        self.check_new(name, number)
        topic = Topic(
            name,
            uuid.uuid4(),
            tuple(Partition(name, index, leader=self._leader, room=self.room) for index in range(number)),
        )
        self._by_name[name] = topic
        self._by_id[topic.id] = topic
        self._partitions += number
        return topic

    def delete(self, topic: Topic) -> None:
        """Remove a topic and give its memory back. O(partitions)."""
        del self._by_name[topic.name], self._by_id[topic.id]
        self._partitions -= len(topic.partitions)
        for partition in topic.partitions:
            partition.delete()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise ProtocolError(
            ErrorCode.invalid_topic_exception,
            f"a topic's name must be 1 to 249 letters, digits, dots, underscores or dashes, got {name[:260]!r}",
        )
