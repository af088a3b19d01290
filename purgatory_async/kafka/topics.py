"""Topics by name and by id."""

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.configs.rules import Rules, rules_of
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.partition import NO_EPOCH, Partition
from purgatory_async.kafka.settings import Settings

__all__ = ["Topic", "Topics", "check_apart", "check_name", "unified"]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(slots=True, eq=False)
class Topic:
    """A topic; two of one name, created one after the other, differ by id.

    Attributes:
        name: The topic's name.
        id: The topic's id.
        partitions: In their order; there may be more later.
        configs: What it is given itself.
        budget: Where its memory is counted.
        internal: Whether it is the brokers' own.
    """

    name: str
    id: uuid.UUID
    partitions: tuple[Partition, ...]
    configs: Overrides
    budget: Budget
    internal: bool = False


class Topics:
    """The topics of a cluster, as one broker knows them.

    Args:
        settings: Limits and defaults.
        brokers: The numbers of all brokers.
        now: Returns the time in seconds.
        id: The broker that knows them; None for the first.
        epoch: The epoch of the partitions that it leads.

    Attributes:
        epoch: The epoch of the partitions that this broker leads.
        version: Grows with each topic created, enlarged or deleted.
        on_added: Called with each new topic, and with one that has new partitions.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        brokers: Collection[int],
        now: Callable[[], float],
        id: int | None = None,  # noqa: A002 - Kafka's name
        epoch: int = 0,
    ) -> None:
        self.brokers: Final = tuple(sorted(brokers))
        self.budget: Final = Budget(settings.max_bytes)
        self.version = 0
        self.on_added: Final[list[Callable[[Topic], object]]] = []
        self._id: Final = self.brokers[0] if id is None else id
        self.epoch: Final = epoch
        self._settings: Final = settings
        self._now: Final = now
        self._by_name: Final[dict[str, Topic]] = {}
        self._by_id: Final[dict[uuid.UUID, Topic]] = {}
        self._by_unified: Final[dict[str, str]] = {}
        self._partitions = 0

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
            check_name(name)
            raise ProtocolError(
                ErrorCode.unknown_topic_or_partition, f"topic {name!r} must exist, and does not"
            )
        return topic

    def find_id(self, topic_id: uuid.UUID | None) -> Topic:
        """Find a topic by id. O(1).

        Raises:
            ProtocolError: unknown_topic_id, also for None.
        """
        topic = None if topic_id is None else self._by_id.get(topic_id)
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

    def check_new(self, name: str) -> None:
        """Check that a new topic can have a name. O(1).

        Raises:
            ProtocolError: topic_already_exists, or invalid_topic_exception if no topic can, or a similar one exists.
        """
        check_name(name)
        if name in self._by_name:
            raise ProtocolError(
                ErrorCode.topic_already_exists, f"topic {name!r} exists: cannot create it again"
            )
        check_apart(name, self._by_unified.get(unified(name)))

    def placed(
        self, partitions: int | None = None, replication: int | None = None, *, after: int = 0
    ) -> list[tuple[int, ...]]:
        """Spread partitions over the brokers in turn; the first replica of each leads it.

        Args:
            partitions: How many; None for the default.
            replication: Replicas of each; None for the default, or as many as there are brokers.
            after: How many the topic has already.

        Raises:
            ProtocolError: invalid_partitions, or policy_violation if the broker would have too many.

        >>> topics = Topics(Settings(), brokers=(0, 1, 2), now=float)
        >>> topics.placed(4, 2)
        [(0, 1), (1, 2), (2, 0), (0, 1)]
        """
        number = self._settings.partitions if partitions is None else partitions
        self.check_number(number)
        brokers = len(self.brokers)
        copies = min(self._settings.replication, brokers) if replication is None else replication
        return [
            tuple(self.brokers[(index + copy) % brokers] for copy in range(copies))
            for index in range(after, after + number)
        ]

    def create(
        self,
        name: str,
        placement: Sequence[Sequence[int]] | None = None,
        configs: Overrides = MappingProxyType({}),
    ) -> Topic:
        """Create a topic. O(partitions).

        Args:
            name: The name of the topic.
            placement: The brokers of each partition, its leader first; None for the default.
            configs: What the topic is given itself, which was checked.

        Raises:
            ProtocolError: As `check_new` and `placed`.
        """
        placement = self.placed() if placement is None else placement
        self.check_new(name)
        self.check_number(len(placement))
        return self.add(name, uuid.uuid4(), placement, configs)

    def add(
        self,
        name: str,
        topic_id: uuid.UUID,
        placement: Sequence[Sequence[int]],
        configs: Overrides = MappingProxyType({}),
        *,
        internal: bool = False,
        budget: Budget | None = None,
    ) -> Topic:
        """Add a topic that was checked, as by the controller. O(partitions)."""
        topic = self._by_name[name] = self._by_id[topic_id] = Topic(
            name, topic_id, (), configs, self.budget if budget is None else budget, internal
        )
        self._by_unified.setdefault(unified(name), name)
        self.enlarge(topic, placement)
        return topic

    def enlarge(self, topic: Topic, placement: Sequence[Sequence[int]]) -> None:
        """Add the partitions that a topic does not have yet, of all that are placed. O(new partitions)."""
        rules = self._rules(topic)
        added = tuple(
            Partition(
                topic.name,
                index,
                replicas=placement[index],
                budget=topic.budget,
                rules=rules,
                leader_epoch=self.epoch if placement[index][0] == self._id else NO_EPOCH,
                now=self._now(),
            )
            for index in range(len(topic.partitions), len(placement))
        )
        if added:
            topic.partitions += added
            self._partitions += 0 if topic.internal else len(added)
            self.version += 1
            for call in self.on_added:
                call(topic)

    def configure(self, topic: Topic, configs: Overrides) -> None:
        """Replace a topic's own configs; they apply from the next append on. O(partitions)."""
        topic.configs = configs
        rules = self._rules(topic)
        for partition in topic.partitions:
            partition.rules = rules

    def delete(self, topic: Topic) -> None:
        """Remove a topic and give its memory back. O(partitions)."""
        del self._by_name[topic.name], self._by_id[topic.id]
        if self._by_unified.get(unified(topic.name)) == topic.name:
            del self._by_unified[unified(topic.name)]
        self._partitions -= len(topic.partitions)
        self.version += 1
        for partition in topic.partitions:
            partition.delete()

    def _rules(self, topic: Topic) -> Rules:
        return Rules() if topic.internal else rules_of(self._settings, topic.configs)

    def check_number(self, partitions: int) -> None:
        """Check that so many partitions may be added.

        Raises:
            ProtocolError: invalid_partitions, or policy_violation if the broker would have too many.
        """
        if partitions < 1:
            raise ProtocolError(
                ErrorCode.invalid_partitions, f"partitions must be at least 1, got {partitions}"
            )
        left = self._settings.max_partitions - self._partitions
        if partitions > left:
            raise ProtocolError(
                ErrorCode.policy_violation,
                f"partitions must be at most {left}, the rest of {self._settings.max_partitions}, "
                f"got {partitions}",
            )


def check_name(name: str) -> None:
    """Check that a topic may have a name.

    Raises:
        ProtocolError: invalid_topic_exception.
    """
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise ProtocolError(
            ErrorCode.invalid_topic_exception,
            f"a topic's name must be 1 to 249 letters, digits, dots, underscores or dashes, got {name[:260]!r}",
        )


def unified(name: str) -> str:
    """What is the same for names that collide, as Kafka's metrics write dots and underscores alike."""
    return name.replace(".", "_")


def check_apart(name: str, other: str | None) -> None:
    """Check a name beside the one with the same `unified` form, if there is one.

    Raises:
        ProtocolError: invalid_topic_exception.
    """
    if other is not None and other != name:
        raise ProtocolError(
            ErrorCode.invalid_topic_exception,
            f"a topic's name must differ from others in more than dots and underscores, got {name!r} beside {other!r}",
        )
