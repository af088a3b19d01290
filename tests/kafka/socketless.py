"""A node without sockets: requests are bytes that kio wrote, answers are bytes that kio reads."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from purgatory_async import Timer
from purgatory_async.kafka import wire
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.requests import APIS
from purgatory_async.kafka.settings import Settings
from tests.kafka import protocol
from tests.kafka.made_batches import Read, records_in


class SocketlessBroker:
    """Asks a node, as one client that waits for each answer."""

    def __init__(self, clock, *, brokers: int = 1, id: int = 0, epoch: int = 0, **settings: Any) -> None:  # noqa: A002
        self.node = Node(
            Settings(**settings), id=id, brokers=range(brokers), epoch=epoch, timer=Timer(clock=clock)
        )
        self.node.cluster.reachable.update(range(brokers))
        for number in range(brokers):
            self.node.addresses[number] = ("127.0.0.1", 9092 + number)

    async def ask(self, key: int, version: int, /, **values: Any) -> Any:
        frame = protocol.request_frame(key, version, **values)
        header = wire.read_header(frame)
        request, client_id = wire.read_body(header, frame)
        answer = APIS[key].handle(self.node, request, Client(client_id, "127.0.0.1"))
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is None:
            return None
        sent = b"".join(wire.encode(header, answer))
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        correlation_id, entity = protocol.response(key, version, sent[4:])
        assert correlation_id == header.correlation_id
        return entity

    def begin(self, key: int, version: int, /, **values: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(self.ask(key, version, **values))

    async def produce(
        self, topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> Any:
        """The answer for one partition; None for acks=0."""
        answer = await self.ask(
            protocol.PRODUCE, version, **produced(topic, data, partition=partition, acks=acks)
        )
        return None if answer is None else answer.responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int, **values: Any) -> Any:
        """The answer for one partition."""
        answer = await self.ask(protocol.FETCH, 12, **fetched(topic, offset, **values))
        return answer.responses[0].partitions[0]

    async def read(self, topic: str, offset: int = 0) -> list[Read]:
        """Records there are, without waiting."""
        return records_in((await self.fetch(topic, offset, max_wait=0)).records)


def produced(
    topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, timeout: int = 1_000
) -> dict[str, Any]:
    """The fields of a produce for one partition."""
    part = {"index": partition, "records": data}
    return {"acks": acks, "timeout": timeout, "topic_data": [{"name": topic, "partition_data": [part]}]}


def fetched(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    partition_max_bytes: int = 1 << 20,
    max_wait: int = 500,
    min_bytes: int = 1,
    **values: Any,
) -> dict[str, Any]:
    """The fields of a fetch for one partition."""
    part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
    topics = [{"topic": topic, "partitions": [part]}]
    return {"max_wait": max_wait, "min_bytes": min_bytes, "topics": topics, **values}
