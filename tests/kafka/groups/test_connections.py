"""Groups over real sockets: a client that goes takes its held requests along, and a held join holds what follows."""

import asyncio

import pytest

from purgatory_async.kafka import Broker
from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import METADATA

pytestmark = pytest.mark.asyncio

PATIENCE_S = 60  # for a test that fails
JOIN, HEARTBEAT, SYNC = 11, 12, 14
ASKED = {
    "group_id": "g",
    "session_timeout": 10_000,
    "rebalance_timeout": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


async def until(condition) -> None:
    """Wait until a condition holds, a turn of the loop at a time."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what it asks has no event
            await asyncio.sleep(0)


async def test_a_client_that_goes_takes_its_held_join_along():
    async with Broker(rebalance_delay=60) as broker, PlainClient(broker) as other:
        async with PlainClient(broker) as client:
            client.send(JOIN, 3, **ASKED)
            await until(lambda: broker.node.rebalance.pending)
        await until(lambda: not broker.node.rebalance.pending)
        assert broker.node.groups.find("g") is None
        assert (await other.ask(METADATA, 9)).brokers


async def test_a_client_that_goes_takes_its_held_sync_along():
    async with Broker(rebalance_delay=0) as broker, PlainClient(broker) as one:
        first = await one.ask(JOIN, 3, **ASKED)
        async with PlainClient(broker) as two:
            two.send(JOIN, 3, **ASKED)
            await until(lambda: broker.node.groups.find("g").state == "PreparingRebalance")
            await one.ask(JOIN, 3, **ASKED, member_id=first.member_id)
            _, second = await two.response()
            member = broker.node.groups.find("g").members.get(second.member_id)
            two.send(SYNC, 2, group_id="g", generation_id=2, member_id=second.member_id)
            await until(lambda: member.session.is_held)
        await until(lambda: not member.session.is_held)
        heartbeat = await one.ask(HEARTBEAT, 2, group_id="g", generation_id=2, member_id=first.member_id)
        assert heartbeat.error_code.name == "none", "only its session ends the member"


async def test_a_held_join_holds_what_follows_it():
    async with Broker(rebalance_delay=60) as broker, PlainClient(broker) as client:
        client.send(JOIN, 3, correlation_id=1, **ASKED)
        client.send(METADATA, 9, correlation_id=2)
        await until(lambda: broker.node.rebalance.pending)
        member = broker.node.groups.members("g")[0]
        broker.node.groups.expire_sessions("g", member.id)
        number, answer = await client.response()
        assert (number, answer.error_code.name) == (1, "unknown_member_id")
        assert (await client.response())[0] == 2
