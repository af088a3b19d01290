"""Unmodified clients create topics with configs, describe and alter these, and add partitions."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, closing

import aiokafka.admin
import confluent_kafka.admin
import kafka.admin
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from confluent_kafka.admin import AlterConfigOpType
from kafka.errors import BrokerResponseError

from purgatory_async.kafka import Broker
from tests.kafka.programs import CLIENTS_OF_OTHER_LANGUAGES, said
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["uvloop"])]

PATIENCE_S = 60
NAME = "retention.ms"
OK, INVALID_CONFIG, INVALID_PARTITIONS = 0, 40, 37
ADMINISTERED = [
    *(OK, INVALID_CONFIG),  # creating topics with a good config and with an unknown one
    "5",
    *(OK, INVALID_CONFIG),  # altering it well and badly
    "6",
    *(OK, INVALID_PARTITIONS),  # the second time it is no growth
    4,
]


def by_confluent(address: str) -> list[object]:
    api = confluent_kafka.admin
    admin = api.AdminClient({"bootstrap.servers": address})

    def code(futures) -> int:
        (future,) = futures.values()
        error = future.exception(PATIENCE_S)
        return OK if error is None else error.args[0].code()

    def create(topic, configs):
        return code(admin.create_topics([api.NewTopic(topic, 2, 1, config=configs)]))

    def resource(*entries):
        return api.ConfigResource(
            api.ConfigResource.Type.TOPIC, "t", incremental_configs=list(entries) or None
        )

    def described():
        return admin.describe_configs([resource()])[resource()].result(PATIENCE_S)[NAME].value

    def alter(value):
        entry = api.ConfigEntry(NAME, value, incremental_operation=AlterConfigOpType.SET)
        return code(admin.incremental_alter_configs([resource(entry)]))

    def grow():
        return code(admin.create_partitions([api.NewPartitions("t", 4)]))

    return [
        *(create("t", {NAME: "5"}), create("u", {"no.such.config": "5"}), described()),
        *(alter("6"), alter("soon"), described(), grow(), grow()),
        len(admin.list_topics("t", timeout=PATIENCE_S).topics["t"].partitions),
    ]


def by_kafka_python(address: str) -> list[object]:
    api = kafka.admin

    def code(call, *arguments) -> int:
        try:
            answer = call(*arguments)
        except BrokerResponseError as error:
            return error.errno
        altered = answer["topic"]["t"] if isinstance(answer, dict) and "topic" in answer else "OK"
        return OK if altered == "OK" else int(altered.removeprefix("[Error ").partition("]")[0])

    with closing(kafka.KafkaAdminClient(bootstrap_servers=address)) as admin:

        def create(topic, configs):
            return code(admin.create_topics, [api.NewTopic(topic, 2, 1, topic_configs=configs)])

        def described():
            resource = api.ConfigResource("TOPIC", "t")
            return admin.describe_configs([resource])["topic"]["t"][NAME]["value"]

        def alter(value):
            return code(admin.alter_configs, [api.ConfigResource("TOPIC", "t", {NAME: value})])

        def grow():
            return code(admin.create_partitions, {"t": 4})

        return [
            *(create("t", {NAME: "5"}), create("u", {"no.such.config": "5"}), described()),
            *(alter("6"), alter("soon"), described(), grow(), grow()),
            len(admin.describe_topics(["t"])[0]["partitions"]),
        ]


async def by_aiokafka(address: str) -> list[object]:
    api = aiokafka.admin
    admin = api.AIOKafkaAdminClient(bootstrap_servers=address)

    async def create(topic, configs):
        answer = await admin.create_topics([api.NewTopic(topic, 2, 1, topic_configs=configs)])
        return answer.topic_errors[0][1]

    def resource(value=None):
        return ConfigResource(ConfigResourceType.TOPIC, "t", {NAME: value})

    async def described():
        (answer,) = await admin.describe_configs([resource()])
        (config,) = answer.resources[0][4]
        return config[1]

    async def alter(value):
        (answer,) = await admin.alter_configs([resource(value)])
        return answer.resources[0][0]

    async def grow():
        try:
            await admin.create_partitions({"t": api.NewPartitions(4)})
        except aiokafka.errors.InvalidPartitionsError as error:
            return error.errno
        return OK

    await admin.start()
    try:
        return [
            *(await create("t", {NAME: "5"}), await create("u", {"no.such.config": "5"}), await described()),
            *(await alter("6"), await alter("soon"), await described(), await grow(), await grow()),
            len((await admin.describe_topics(["t"]))[0]["partitions"]),
        ]
    finally:
        await admin.close()


@asynccontextmanager
async def a_cluster(brokers: int):
    """The first and the last of so many brokers."""
    nodes = {number: ("127.0.0.1", free_port()) for number in range(brokers)}
    async with AsyncExitStack() as stack:
        running = [
            await stack.enter_async_context(Broker(nodes=nodes if brokers > 1 else None, id=number))
            for number in nodes
        ]
        yield running[0], running[-1]


BROKERS = pytest.mark.parametrize("brokers", [1, 3])  # of three, clients ask all


@BROKERS
@pytest.mark.parametrize("client", [by_confluent, by_kafka_python, by_aiokafka])
async def test_a_client_administers_configs_and_partitions(client, brokers):
    async with a_cluster(brokers) as (controller, last):
        if asyncio.iscoroutinefunction(client):
            assert await client(last.address) == ADMINISTERED
        else:
            assert await asyncio.to_thread(client, last.address) == ADMINISTERED
        for broker in (controller, last):
            assert broker.node.topics.find("t").configs == {NAME: "6"}
            assert "u" not in broker.node.topics


@BROKERS
@CLIENTS_OF_OTHER_LANGUAGES
async def test_others_administer_configs_and_partitions(client, brokers):
    async with a_cluster(brokers) as (_, last):
        steps = [
            *("create t 2", f"config t {NAME}", f"alter t {NAME} 6", f"config t {NAME}"),
            *(f"alter t {NAME} soon", "alter t no.such.config 1", "alter never segment.ms 1"),
            *("grow t 4", "topic t", "grow t 4"),
        ]
        assert await said(client, "admin", last.address, *steps) == [
            *({"created": True}, {"value": "604800000", "source": 5}, {"altered": "t"}),
            *({"value": "6", "source": 1}, {"error": "INVALID_CONFIG"}, {"error": "INVALID_CONFIG"}),
            *({"error": "UNKNOWN_TOPIC_OR_PARTITION"}, {"grown": True}, {"partitions": 4}),
            {"error": "INVALID_PARTITIONS"},
        ]


async def delivered(configs: dict[str, str]):
    """What librdkafka reports of a record without a key, to a topic with these configs."""
    async with Broker() as broker:
        broker.node.now_ms = lambda: 1_700_000_000_000
        broker.node.controller.create("t", [(0,)], configs)
        reports = []
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "compression.type": "zstd"})
        producer.produce("t", b"v", timestamp=1_000, on_delivery=lambda *report: reports.append(report))
        assert await asyncio.to_thread(producer.flush, PATIENCE_S) == 0
    (report,) = reports
    return report


async def test_a_producer_learns_the_brokers_time():
    error, message = await delivered({"message.timestamp.type": "LogAppendTime"})
    assert error is None
    assert message.timestamp() == (confluent_kafka.TIMESTAMP_LOG_APPEND_TIME, 1_700_000_000_000)


async def test_a_producer_learns_that_a_key_is_needed():
    error, _ = await delivered({"cleanup.policy": "compact"})
    assert error.code() == confluent_kafka.KafkaError.INVALID_RECORD
