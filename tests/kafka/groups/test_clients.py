"""Groups of unmodified clients, each in a process of its own: shared, killed, restarted as a static member."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager, closing
from itertools import chain
from pathlib import Path

import pytest

from bench.kafka.programs import JAVA, PROGRAMS, command, environment
from purgatory_async.kafka import Broker
from tests.kafka.programs import CLIENTS_OF_OTHER_LANGUAGES, installed, said

for client in ("aiokafka", "confluent_kafka", "kafka"):
    pytest.importorskip(client)
from confluent_kafka import ConsumerGroupTopicPartitions, Producer  # noqa: E402 - after the skip
from confluent_kafka.admin import AdminClient  # noqa: E402 - after the skip
from kafka import KafkaAdminClient, TopicPartition  # noqa: E402 - after the skip

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["uvloop"])]

PROGRAM = Path(__file__).with_name("consumer_program.py")
PATIENCE_S = 60
PARTITIONS = 4
PYTHONS = ("confluent", "aiokafka", "kafka-python")
CLIENTS = pytest.mark.parametrize("client", [*PYTHONS, *PROGRAMS])
STATIC_CLIENTS = pytest.mark.parametrize("client", [*PYTHONS, JAVA])  # kafkajs has no static members


class Member:
    """A consumer's process, and what it has printed.

    Args:
        process: Running.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.assigned: list[int] = []
        self.assignments = 0
        self.values: list[str] = []
        self.reading = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            event = json.loads(line)
            if "assigned" in event:
                self.assigned = event["assigned"]
                self.assignments += 1
            else:
                self.values.append(event["value"])

    async def leave(self) -> None:
        """Let it close its consumer."""
        self.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        await self.reading

    async def kill(self) -> None:
        """As the kernel would."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


@asynccontextmanager
async def members(broker, client, session_ms=1_000):
    """Starts members; those that run in the end are killed."""
    started: list[Member] = []
    line = [sys.executable, PROGRAM, client] if client in PYTHONS else [*command(installed(client)), "member"]

    async def start(*instance):
        process = await asyncio.create_subprocess_exec(
            *(*line, broker.address, "t", "g", str(session_ms), *instance),
            stdout=asyncio.subprocess.PIPE,
            env=environment(),
        )
        started.append(Member(process))
        return started[-1]

    try:
        yield start
    finally:
        for member in started:
            await member.kill()


async def until(condition) -> None:
    """Wait until a condition holds; what it asks changes by what other processes do."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


def shared(*group) -> bool:
    """Whether the members have all partitions between them, each at least one."""
    assigned = [member.assigned for member in group]
    return all(assigned) and sorted(chain.from_iterable(assigned)) == list(range(PARTITIONS))


async def produce(broker, *values) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % PARTITIONS)
    assert await asyncio.to_thread(producer.flush, PATIENCE_S) == 0


@asynccontextmanager
async def a_broker():
    """A broker with the topic ``t``."""
    async with Broker(rebalance_delay=0, partitions=PARTITIONS) as broker:
        broker.node.topics.create("t")
        yield broker


@CLIENTS
async def test_two_members_share_and_their_offsets_stay(client):
    async with a_broker() as broker, members(broker, client) as start:
        one = await start()
        await until(lambda: shared(one))
        two = await start()
        await until(lambda: shared(one, two))
        values = [f"value {number}" for number in range(40)]
        await produce(broker, *values)
        await until(lambda: len(one.values) + len(two.values) == len(values))
        assert sorted(one.values + two.values) == sorted(values)
        await one.leave()
        await until(lambda: shared(two))
        await two.leave()
        group = broker.node.groups.find("g")
        assert (group.state, len(group.members)) == ("Empty", 0)
        offsets = broker.node.groups.committed("g").values()
        assert [offset.offset for offset in offsets] == [10] * PARTITIONS
        three = await start()
        await until(lambda: shared(three))
        await produce(broker, "the last")
        await until(lambda: three.values)
        assert three.values == ["the last"]


@CLIENTS
async def test_partitions_added_while_consuming_are_read(client):
    async with Broker(rebalance_delay=0, partitions=2) as broker, members(broker, client) as start:
        node = broker.node
        node.topics.create("t")
        one, two = await start(), await start()
        await until(lambda: one.assigned and two.assigned)
        node.controller.enlarge(node.topics.find("t"), [(0,)] * (PARTITIONS - 2))
        await until(lambda: shared(one, two))
        await produce(broker, *"abcd")
        await until(lambda: sorted(one.values + two.values) == [*"abcd"])


@CLIENTS
async def test_the_partitions_of_a_killed_member_move(client):
    async with a_broker() as broker, members(broker, client) as start:
        one = await start()
        await until(lambda: shared(one))
        two = await start()
        await until(lambda: shared(one, two))
        await two.kill()
        await until(lambda: shared(one))
        assert len(broker.node.groups.members("g")) == 1


@STATIC_CLIENTS
async def test_a_static_member_returns_without_a_rebalance(client):
    async with a_broker() as broker, members(broker, client, session_ms=30_000) as start:
        one = await start("one")
        await until(lambda: shared(one))
        two = await start("two")
        await until(lambda: shared(one, two))
        group = broker.node.groups.find("g")
        await until(lambda: group.state == "Stable")
        before = group.generation, one.assignments, two.assigned
        await two.kill()
        back = await start("two")
        await until(lambda: back.assigned)
        assert (group.generation, one.assignments, back.assigned) == before
        assert {member.instance_id for member in group.members} == {"one", "two"}


async def test_admin_clients_see_the_group_and_its_offsets():
    async with a_broker() as broker, members(broker, "confluent") as start:
        one = await start("one")
        await until(lambda: shared(one))
        await produce(broker, *"abcd")
        await until(lambda: len(one.values) == PARTITIONS)
        assert await asyncio.to_thread(seen_by_confluent, broker.address) == (
            "STABLE",
            ["one"],
            [1] * PARTITIONS,
        )
        assert await asyncio.to_thread(seen_by_kafka_python, broker.address) == (
            "Stable",
            ["one"],
            [1] * PARTITIONS,
        )


@CLIENTS_OF_OTHER_LANGUAGES
async def test_admins_of_other_languages_see_the_group(client):
    async with a_broker() as broker, members(broker, client) as start:
        one = await start()
        await until(lambda: shared(one))
        await produce(broker, *"abcd")
        await until(lambda: len(one.values) == PARTITIONS)
        assert await said(client, "admin", broker.address, "groups", "group g") == [
            {"groups": ["g"]},
            {"state": "Stable", "members": 1, "offsets": {f"t-{number}": 1 for number in range(PARTITIONS)}},
        ]
        steps = ["forget g", "forget never", "groups"]
        refused = [{"error": "NON_EMPTY_GROUP"}, {"error": "GROUP_ID_NOT_FOUND"}]
        assert await said(client, "admin", broker.address, *steps) == [*refused, {"groups": ["g"]}]
        await one.leave()
        assert await said(client, "admin", broker.address, "forget g", "groups") == [
            *({"forgotten": "g"}, {"groups": []}),
        ]


async def test_admin_clients_delete_groups_without_members():
    """Without DeleteGroups, librdkafka ends the user's process."""
    refused = ["NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"]
    async with a_broker() as broker, members(broker, "confluent") as start:
        for delete in (deleted_by_confluent, deleted_by_kafka_python):
            one = await start()
            await until(lambda: shared(one))  # noqa: B023 - awaited before the next member
            assert await asyncio.to_thread(delete, broker.address, "g", "never") == refused
            await one.leave()
            assert await asyncio.to_thread(delete, broker.address, "g", "never") == [None, refused[1]]
            assert broker.node.groups.find("g") is None


async def test_an_admin_client_deletes_offsets_that_none_needs():
    async with a_broker() as broker, members(broker, "confluent") as start:
        one = await start()
        await until(lambda: shared(one))
        await produce(broker, *"abcd")
        await until(lambda: len(one.values) == PARTITIONS)
        errors = await asyncio.to_thread(forgotten_by_kafka_python, broker.address)
        assert errors == ["GROUP_SUBSCRIBED_TO_TOPIC"]
        await one.leave()
        assert await asyncio.to_thread(forgotten_by_kafka_python, broker.address) == ["NO_ERROR"]
        assert ("t", 0) not in broker.node.groups.committed("g")


def seen_by_confluent(address):
    """State, instances and offsets."""
    admin = AdminClient({"bootstrap.servers": address})
    listed = admin.list_consumer_groups().result(PATIENCE_S).valid
    assert [group.group_id for group in listed] == ["g"]
    group = admin.describe_consumer_groups(["g"])["g"].result(PATIENCE_S)
    request = [ConsumerGroupTopicPartitions("g")]
    committed = admin.list_consumer_group_offsets(request)["g"].result(PATIENCE_S)
    return (
        group.state.name,
        [member.group_instance_id for member in group.members],
        [part.offset for part in committed.topic_partitions],
    )


def deleted_by_confluent(address, *groups):
    """The name of each group's error, or None."""
    admin = AdminClient({"bootstrap.servers": address})
    deleted = admin.delete_consumer_groups(list(groups))
    errors = [deleted[group].exception(PATIENCE_S) for group in groups]
    return [error and error.args[0].name() for error in errors]


def deleted_by_kafka_python(address, *groups):
    """The name of each group's error, or None."""
    names = {
        "OK": None,
        "NonEmptyGroupError": "NON_EMPTY_GROUP",
        "GroupIdNotFoundError": "GROUP_ID_NOT_FOUND",
    }
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        deleted = admin.delete_groups(list(groups))
    return [names[deleted[group]] for group in groups]


def forgotten_by_kafka_python(address):
    """The names of the errors of deleting the group's offset of partition 0."""
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        errors = admin.delete_group_offsets("g", [TopicPartition("t", 0)])
    return [error.message for error in errors.values()]


def seen_by_kafka_python(address):
    """State, instances and offsets."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        assert [group["group_id"] for group in admin.list_groups()] == ["g"]
        group = admin.describe_groups(["g"])["g"]
        committed = admin.list_group_offsets(["g"])["g"]
    finally:
        admin.close()
    return (
        group["group_state"],
        [member["group_instance_id"] for member in group["members"]],
        [kept.offset for kept in committed.values()],
    )
