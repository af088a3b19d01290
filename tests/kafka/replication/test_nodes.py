"""How a broker is told of the others; and two brokers on real sockets."""

import asyncio
from types import SimpleNamespace

import pytest

from purgatory_async.cli.kafka import REFUSED, run
from purgatory_async.kafka import Broker
from purgatory_async.kafka.errors import ErrorCode
from tests.kafka.config_requests import alter, change
from tests.kafka.made_batches import batch
from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import METADATA, PRODUCE
from tests.kafka.socketless import produced
from tests.ports import free_port

NODES = {0: ("127.0.0.1", 9092), 1: ("127.0.0.1", 9093)}


@pytest.mark.parametrize("nodes", ["0@a", "a:1", "0@a:1,0@b:2", "0@a:1,,1@b:2", "x@a:1", ""])
def test_nodes_that_name_no_brokers_are_refused(nodes, capsys):
    assert run(["kafka", "--nodes", nodes]) == REFUSED
    assert "NUMBER@HOST:PORT" in capsys.readouterr().err


def test_a_broker_must_be_one_of_its_nodes():
    with pytest.raises(ValueError, match=r"id must be one of nodes, \[0, 1\], got 2"):
        Broker(nodes=NODES, id=2)


def test_a_broker_listens_where_the_others_look_for_it():
    with pytest.raises(ValueError, match="port must be 9093, as nodes says of broker 1, got 9092"):
        Broker(nodes=NODES, id=1, port=9092)


def available(topic) -> bool:
    return ErrorCode.none is topic.error_code is topic.partitions[0].error_code


@pytest.mark.asyncio
async def test_a_config_altered_at_the_other_broker_holds_on_both():
    nodes = {number: ("127.0.0.1", free_port()) for number in range(2)}
    async with Broker(nodes=nodes, id=0) as controller, Broker(nodes=nodes, id=1) as other:
        controller.node.controller.create("t", [(0, 1)])
        async with PlainClient(SimpleNamespace(host="127.0.0.1", port=other.port)) as client:
            answer = await change(client, ("retention.ms", 0, "5"))
            assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
            refused = await alter(client, {"retention.ms": "soon"})
            assert refused.error_code is ErrorCode.invalid_config
        for broker in (controller, other):
            assert broker.node.topics.find("t").configs == {"retention.ms": "5"}


@pytest.mark.asyncio
async def test_a_topic_asked_of_the_other_broker_appears_on_both():
    nodes = {number: ("127.0.0.1", free_port()) for number in range(2)}
    async with Broker(nodes=nodes, id=0, replication=2) as leader, Broker(nodes=nodes, id=1) as other:
        async with PlainClient(SimpleNamespace(host="127.0.0.1", port=other.port)) as client:
            answer = await client.ask(METADATA, 12, topics=[{"name": "t"}], allow_auto_topic_creation=True)
            assert answer.topics[0].error_code is ErrorCode.leader_not_available
            while not available(answer.topics[0]):
                await asyncio.sleep(0)
                answer = await client.ask(METADATA, 12, topics=[{"name": "t"}])
            assert answer.topics[0].partitions[0].replica_nodes == (0, 1)
        async with PlainClient(leader) as client:
            answer = await client.ask(PRODUCE, 9, **produced("t", batch(b"a"), timeout=30_000))
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
        assert other.node.topics.partition("t", 0).log.end == 1
