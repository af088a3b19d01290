"""The broker as a test drives it."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from math import inf
from typing import Any, Final

from purgatory_async import Timer
from purgatory_async.clock import Clock, describe
from purgatory_async.kafka.configs.overrides import checked
from purgatory_async.kafka.groups.offsets import TopicPartition
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.taking import check_records
from purgatory_async.kafka.testing.interception import InterceptedBroker, until
from purgatory_async.kafka.testing.records import Headers, Record, read_records, write_batch

__all__ = ["KafkaBroker"]

_EVERYTHING: Final = 1 << 62


class KafkaBroker(InterceptedBroker):
    """A `Broker` for tests: groups form without delay, and a test can write, read and disturb.

    What starts a disturbance takes effect at once, and returns a context manager that ends it.

    Args:
        clock: The clock of sessions and all waits, such as a ``ManualClock``; real time if not given. Connections and
            clients always live in real time.
        settings: As for `Broker`; ``port`` is a free one and ``rebalance_delay`` is 0 unless given;
            no connection is closed for being idle.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     async with KafkaBroker() as broker:
        ...         await broker.produce("orders", b"one", b"two", key=b"k")
        ...         return [record.value for record in broker.records("orders")]
        >>> asyncio.run(main())
        [b'one', b'two']
    """

    def __init__(self, *, clock: Clock | None = None, **settings: Any) -> None:
        timer = None if clock is None else Timer(clock=clock)
        settings.setdefault("rebalance_delay", 0.0)
        settings.setdefault("idle_timeout", inf)  # clients live in real time, and the clock may jump
        super().__init__(timer=timer, **settings)
        self._own_timer: Final = timer
        self._ports: Final = ExitStack()  # kept while it is stopped

    async def __aexit__(self, *raised: object) -> None:
        """Close, as `Broker` does."""
        await super().__aexit__(*raised)
        self._ports.close()
        if self._own_timer is not None:
            self._own_timer.close()

    # Records.

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, as a client would. O(partitions).

        Args:
            topic: Its name.
            partitions: How many.
            configs: What it is given itself, by Kafka's names, such as ``cleanup.policy``.

        Raises:
            ProtocolError: The name, the number or a config is refused, or the topic exists.
        """
        given = checked((configs or {}).items())
        self.node.topics.create(topic, self.node.topics.placed(partitions), given)

    async def produce(
        self,
        topic: str,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> range:
        """Append one batch of records, as a producer with acks=1: it does not wait until they are replicated.

        Args:
            topic: Created if it does not exist, as for a client.
            values: One record each; None makes a tombstone.
            key: The key of all of them.
            partition: Where to append.
            headers: Names and values, of all of them.
            timestamp_ms: Milliseconds since 1970; now if not given.

        Returns:
            Their offsets.

        Raises:
            TypeError, ValueError: A value is not bytes or None, or there is none.
            ProtocolError: The broker refuses them, with Kafka's error as ``code``.
        """
        for value in values:
            if value is not None and not isinstance(value, bytes):
                raise TypeError(f"values must be bytes or None, got {describe(value)}; encode it")
        if not values:
            raise ValueError(f"values must be at least one, got {values}")
        self.node.topic_for(topic)
        found = self.node.led(topic, partition)
        batch = write_batch(
            values,
            key=key,
            headers=headers,
            timestamp_ms=self.node.now_ms() if timestamp_ms is None else timestamp_ms,
        )
        now_ms = self.node.now_ms()
        await check_records(self.node.finder, found, batch, acks_all=False, now_ms=now_ms)
        first, end = found.append(batch, acks_all=False, now_ms=now_ms)
        self.node.changed(found)
        return range(first, end)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Read what a topic has, also what is not yet replicated; partition by partition. O(bytes).

        Args:
            topic: Its name.
            partition: Only this one.

        Raises:
            ProtocolError: There is no such topic or partition, or a batch cannot be opened; see `decompress`.
        """
        return [
            record
            for found in self._partitions(topic, partition)
            for view in found.log.read(found.log.start, found.log.end, _EVERYTHING, at_least_one=True)
            for record in read_records(found.index, bytes(view))
            if record.offset >= found.log.start
        ]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Read what a group has committed. O(committed offsets).

        ``node.groups.committed(group)`` has the metadata and leader epochs too.

        Returns:
            By topic and partition the offset of the next record to read, ``{("orders", 0): 1}``; nothing for a group
            that is not known.
        """
        return {place: found.offset for place, found in self.node.groups.committed(group).items()}

    # Disturbances.

    async def stop(self) -> None:
        """Drop all connections and refuse new ones until `start`: a broker that restarts.

        It keeps its port, records and groups. Sessions go on.
        """
        server = self._server
        assert server is not None, f"{self!r} was not entered"
        if not self._away:
            listened = [(each.family, each.getsockname()) for each in server.sockets]
            await self._hang_up()
            for family, address in listened:
                kept = socket.socket(family)
                self._ports.callback(kept.close)
                kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                kept.bind(address)  # it does not listen, but no client is given the port for its own end

    async def start(self) -> None:
        """Listen again where the broker listened before `stop`; does nothing while it listens.

        Raises:
            OSError: Another process listens there.
        """
        if self._away:
            await self._listen()
            self._ports.close()

    def pause(self, topic: str, partition: int | None = None) -> ExitStack:
        """Stop replication of a partition, or of all of a topic, until `resume` or the end of a ``with`` block.

        It goes on taking records, but none is committed: producers with acks=all wait, consumers see nothing new.

        Raises:
            ProtocolError: There is no such topic or partition.
        """
        for found in self._partitions(topic, partition):
            found.pause()
        return until(self.resume, topic, partition)

    def resume(self, topic: str, partition: int | None = None) -> None:
        """Replicate again what was paused; what waited for it goes on.

        Raises:
            ProtocolError: There is no such topic or partition.
        """
        for found in self._partitions(topic, partition):
            found.resume()
            self.node.changed(found)

    def expire_session(self, group: str, *member_ids: str) -> tuple[str, ...]:
        """Expire the sessions of these members of a group, or of all: as if they had been silent for too long.

        Returns:
            The ids of the members that were removed.

        Raises:
            ValueError: There is no such group.
            ProtocolError: There is no such member.
        """
        if self.node.groups.find(group) is None:
            raise ValueError(
                f"group must be one of {[known.id for known in self.node.groups]}, got {group!r}"
            )
        return self.node.groups.expire_sessions(group, *member_ids)

    def _partitions(self, topic: str, partition: int | None) -> tuple[Partition, ...]:
        if partition is None:
            return self.node.topics.find(topic).partitions
        return (self.node.topics.partition(topic, partition),)
