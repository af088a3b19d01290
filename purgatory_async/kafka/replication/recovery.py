"""What a broker that starts takes back from the others, before it serves: topics, and the records that it led.

Its own memory is gone, but its followers have copies. It takes each partition from the follower whose copy goes
furthest, by epoch and then by offset, as it has all that was acknowledged while that follower was in sync. A broker
that refuses the connection does not run, so it has nothing either; one that is silent may have more than the others,
and is waited for as long as a replica may lag.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple
from uuid import UUID

from purgatory_async.kafka.configs.described import MAX_RESOURCES, Resource, Source
from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.copying import MAX_ASKED, fetch_on
from purgatory_async.kafka.replication.peer import Other, Peer
from purgatory_async.kafka.replication.replica import Replica
from purgatory_async.kafka.topics import Topic

__all__ = ["recover", "take_back"]

_LOG: Final = logging.getLogger(__name__)
_METADATA: Final = (3, 12)  # api and version
_DESCRIBE_CONFIGS: Final = (32, 4)
_OF_METADATA: Final = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


class _Copy(NamedTuple):
    """How far a follower's copy goes; the greater one has more."""

    epoch: int
    end: int
    broker: int


async def recover(node: Node) -> None:
    """Ask all other brokers, and take back what they have. O(bytes), and up to ``replica_lag`` for a silent one."""
    async with AsyncExitStack() as stack:
        others: dict[int, Other] = {}
        for broker in node.cluster.brokers:
            if broker == node.id:
                continue
            host, port = node.addresses[broker]
            peer = Peer(
                host,
                port,
                name=f"broker-{node.id}",
                timer=node.timer,
                patience=node.settings.replica_lag,
            )
            try:
                others[broker] = await stack.enter_async_context(peer)
            except ConnectionRefusedError:
                _LOG.info("broker %d does not run, and has nothing to take back", broker)
            except OSError as error:
                _warn(node, broker, error)
        await take_back(node, others)


async def take_back(node: Node, others: Mapping[int, Other]) -> None:
    """Take back what these brokers have; a broker that is lost meanwhile is left out. O(bytes)."""
    others = dict(others)
    await _learn_topics(node, others)
    await _take_topics(node, others)
    led = [
        partition
        for topic in node.topics
        for partition in topic.partitions
        if partition.leader == node.id and not topic.internal
    ]
    while others and not await _take_records(node, led, others):
        for partition in led:
            partition.start_over(0)
    for partition in led:
        partition.lead_again(node.topics.epoch)
    if led or len(list(node.topics)) > 1:
        records = sum(partition.log.end - partition.log.start for partition in led)
        _LOG.warning("broker %d took back %d partitions with %d records", node.id, len(led), records)
        node.cluster.publish_everything()


async def _learn_topics(node: Node, others: dict[int, Other]) -> None:
    """Learn the topics from the controller, before any records.

    A topic that was deleted meanwhile is deleted here, too; read later, it would take its records along.
    """
    controller = node.cluster.controller
    if controller not in others:
        return
    follower = Replica(node, controller)
    metadata = node.cluster.metadata_of(controller)
    try:
        before = -1
        while before < metadata.log.end:
            before = metadata.log.end
            await follower.fetch(others[controller], waits=False)
    except (OSError, EOFError) as error:
        _warn(node, controller, error)
        del others[controller]


async def _take_topics(node: Node, others: dict[int, Other]) -> None:
    """Add the topics that any of the others has, unless the controller was reached.

    A deletion that one of them missed is undone: better than to lose records. So may be a change of configs; of
    partitions, the most are taken.
    """
    if node.cluster.controller in others:
        return
    known: Counter[tuple[str, UUID]] = Counter()
    placements: dict[UUID, list[tuple[int, ...]]] = {}
    for broker in tuple(others):
        try:
            answer = await others[broker].ask(*_METADATA, topics=None, **_OF_METADATA)
        except (OSError, EOFError) as error:
            _warn(node, broker, error)
            del others[broker]
            continue
        for topic in answer.topics:
            known[topic.name, topic.topic_id] += 1
            placement = [
                tuple(part.replica_nodes)
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            ]
            placements[topic.topic_id] = max(placement, placements.get(topic.topic_id, []), key=len)
    for (name, topic_id), _ in known.most_common():
        if name not in node.topics:
            node.topics.add(name, topic_id, placements[topic_id])
    await _take_configs(node, others)


async def _take_configs(node: Node, others: dict[int, Other]) -> None:
    """Take each topic's own configs from the first broker that has them. O(topics)."""
    left = [topic for topic in node.topics if not topic.internal]
    for broker in tuple(others):
        try:
            for at in range(0, len(left), MAX_RESOURCES):
                for topic, configs in await _overridden(others[broker], left[at : at + MAX_RESOURCES]):
                    node.topics.configure(topic, configs)
        except (OSError, EOFError) as error:
            _warn(node, broker, error)
            del others[broker]
        left = [topic for topic in left if not topic.configs]


async def _overridden(other: Other, topics: Sequence[Topic]) -> list[tuple[Topic, Overrides]]:
    answer = await other.ask(
        *_DESCRIBE_CONFIGS,
        resources=[
            {"resource_type": Resource.TOPIC, "resource_name": topic.name, "configuration_keys": None}
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    return [
        (topic, {one.name: one.value for one in result.configs if one.config_source == Source.TOPIC})
        for topic, result in zip(topics, answer.results, strict=True)
    ]


async def _take_records(node: Node, led: list[Partition], others: dict[int, Other]) -> bool:
    """Copy each partition from where there is most of it; False if a broker was lost, which is removed."""
    best: dict[Partition, _Copy] = {}
    for broker in tuple(others):
        try:
            for partition, part in await _read(node, others[broker], led, broker):
                copy = _Copy(part.diverging_epoch.epoch, part.diverging_epoch.end_offset, broker)
                best[partition] = max(copy, best.get(partition, copy))
        except (OSError, EOFError) as error:
            _warn(node, broker, error)
            del others[broker]
            return False
    for broker in tuple(others):
        wanted = [partition for partition, copy in best.items() if copy.broker == broker]
        try:
            await _copy(node, wanted, others[broker], broker)
        except (OSError, EOFError) as error:
            _warn(node, broker, error)
            del others[broker]
            return False
    return True


async def _copy(node: Node, wanted: list[Partition], other: Other, broker: int) -> None:
    while wanted:
        left: list[Partition] = []
        for partition, part in await _read(node, other, wanted, broker):
            try:
                if partition.log.end < part.log_start_offset:
                    partition.start_over(part.log_start_offset)
                if part.records:
                    partition.append_copies(part.records)
            except ProtocolError as error:
                _LOG.error(
                    "%r: the records from offset %d on are lost: %s", partition, partition.log.end, error
                )
                continue
            if partition.log.end < part.diverging_epoch.end_offset:
                left.append(partition)
        wanted = left


async def _read(
    node: Node, other: Other, wanted: list[Partition], broker: int
) -> list[tuple[Partition, Any]]:
    """Read on from the end of each partition, of those that the other broker has."""
    asked = [one for one in wanted if broker in one.replicas]
    fetched = [
        each
        for at in range(0, len(asked), MAX_ASKED)
        for each in await fetch_on(node, other, asked[at : at + MAX_ASKED], max_wait_ms=0)
    ]
    return [(one, part) for one, part in fetched if part.error_code is ErrorCode.none]


def _warn(node: Node, broker: int, error: Exception) -> None:
    _LOG.warning(
        "broker %d must answer for broker %d to take back its records, got %r; what only it has will be dropped",
        *(broker, node.id, error),
    )
