"""What a client may make the broker hold, over the wire: each bound, and the protocol's error above it."""

from contextlib import ExitStack

import pytest

from purgatory_async import Timer
from purgatory_async.kafka import Broker
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.groups.coordinator import SWEEP_S
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch
from tests.kafka.plain_client import PlainClient, until
from tests.kafka.protocol import API_VERSIONS, FETCH, PRODUCE
from tests.kafka.socketless import SocketlessBroker, fetched, produced

pytestmark = pytest.mark.asyncio

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, SYNC_GROUP, LEAVE_GROUP = 8, 9, 11, 14, 13


async def commit(broker, group: str, *metadata: str, topic: str = "t") -> list[ErrorCode]:
    """The errors of a commit by a client without a group, one for each partition from 0 on."""
    parts = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": note}
        for index, note in enumerate(metadata)
    ]
    answer = await broker.ask(
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": parts}],
    )
    return [part.error_code for part in answer.topics[0].partitions]


async def join(broker, group: str, metadata: bytes = b"m", **values):
    """The answer to a new member that needs no id first."""
    fields = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    return await broker.ask(JOIN_GROUP, 3, **fields, **values)


async def sweep(clock) -> None:
    """Let sessions expire, and groups that stand empty be removed."""
    clock.advance(SWEEP_S + 0.1)
    await settle()


@pytest.fixture
def bounded(manual_clock):
    """Makes a node with these settings and a topic ``t``; it is closed in the end."""
    with ExitStack() as stack:

        def made(**settings) -> SocketlessBroker:
            broker = SocketlessBroker(manual_clock, rebalance_delay=0, **settings)
            stack.callback(broker.node.close)
            broker.node.topics.create("t", [(0,)] * 50)
            return broker

        yield made


@pytest.mark.parametrize(
    ("seconds", "error"),
    [((10, 10), "none"), ((10.001, 60), "invalid_session_timeout"), ((0, 9.999), "invalid_session_timeout")],
)
async def test_the_bounds_of_a_session_are_settings(bounded, seconds, error):
    least, most = seconds
    broker = bounded(min_session_timeout=least, max_session_timeout=most)
    assert (await join(broker, "g")).error_code is ErrorCode[error]


async def test_long_metadata_refuses_its_partition_alone(broker):
    errors = await commit(broker, "g", "n" * 4096, "n" * 4097)
    assert errors == [ErrorCode.none, ErrorCode.offset_metadata_too_large]


async def test_offsets_of_all_groups_have_one_bound(bounded, manual_clock):
    broker = bounded(max_group_bytes=20_000)
    budget = broker.node.groups.budget
    errors = [(await commit(broker, f"g{number}", "n" * 3_000))[0] for number in range(5)]
    refused = ErrorCode.invalid_commit_offset_size
    assert errors == [ErrorCode.none] * 4 + [refused]
    assert [group.id for group in broker.node.groups] == ["g0", "g1", "g2", "g3"], "g4 was left behind"
    assert budget.used_bytes <= budget.max_bytes
    assert await commit(broker, "g0", *[""] * 50) == [refused] * 50, "entries count without metadata too"
    assert await commit(broker, "g0", "n") == [ErrorCode.none]
    assert await commit(broker, "g4", "n" * 1_500) == [ErrorCode.none], "what was replaced is free again"
    broker.node.controller.delete(broker.node.topics.find("t"))
    await sweep(manual_clock)
    assert budget.used_bytes == 0


async def test_metadata_of_members_has_a_bound(bounded, manual_clock):
    broker = bounded(max_group_bytes=10_000)
    budget = broker.node.groups.budget
    joined = await join(broker, "g", b"m" * 5_000)
    assert joined.error_code is ErrorCode.none
    held = budget.used_bytes
    for group, version_3 in (("other", b"m" * 5_000), ("g", b"m" * 5_000)):
        refused = await join(broker, group, version_3)
        assert (refused.error_code, budget.used_bytes) == (ErrorCode.group_max_size_reached, held)
    again = await join(broker, "g", b"m" * 9_000, member_id=joined.member_id)
    assert (again.error_code, budget.used_bytes) == (ErrorCode.group_max_size_reached, held)
    await broker.ask(LEAVE_GROUP, 0, group_id="g", member_id=joined.member_id)
    await sweep(manual_clock)
    assert (budget.used_bytes, broker.node.timer.pending) == (0, 0)


async def test_assignments_have_a_bound(bounded, manual_clock):
    broker = bounded(max_group_bytes=10_000)
    joined = await join(broker, "g")
    fields = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    for size, error in ((9_000, ErrorCode.group_max_size_reached), (5_000, ErrorCode.none)):
        given = [{"member_id": joined.member_id, "assignment": b"a" * size}]
        answer = await broker.ask(SYNC_GROUP, 3, **fields, assignments=given)
        assert answer.error_code is error
    await broker.ask(LEAVE_GROUP, 0, group_id="g", member_id=joined.member_id)
    await sweep(manual_clock)
    assert broker.node.groups.budget.used_bytes == 0


async def test_ids_that_are_given_out_have_a_bound(bounded, manual_clock):
    broker = bounded(max_group_bytes=100_000)
    errors = [
        (await broker.ask(
            JOIN_GROUP,
            5,
            client_id="c" * 30_000,
            group_id="g",
            session_timeout=10_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )).error_code
        for _ in range(4)
    ]  # fmt: skip
    assert errors == [ErrorCode.member_id_required] * 3 + [ErrorCode.group_max_size_reached]
    await sweep(manual_clock)
    assert broker.node.groups.budget.used_bytes == 0


async def test_members_and_groups_above_the_bound_are_refused(bounded):
    broker = bounded(max_groups=1, max_members=1)
    assert (await join(broker, "g")).error_code is ErrorCode.none
    assert (await join(broker, "g")).error_code is ErrorCode.group_max_size_reached
    assert (await join(broker, "other")).error_code is ErrorCode.coordinator_not_available
    assert await commit(broker, "other", "") == [ErrorCode.coordinator_not_available]


async def test_records_above_the_bound_are_refused_until_deleted(bounded):
    broker = bounded(max_bytes=1_000)
    assert (await broker.produce("t", batch(b"v" * 600))).error_code is ErrorCode.none
    assert (await broker.produce("t", batch(b"v" * 600))).error_code is ErrorCode.kafka_storage_error
    broker.node.controller.delete(broker.node.topics.find("t"))
    broker.node.topics.create("t", [(0,)])
    assert (await broker.produce("t", batch(b"v" * 600))).error_code is ErrorCode.none


# Connections that stand idle, on real sockets and virtual time.


async def test_an_idle_connection_is_closed_others_stay(manual_clock):
    timer = Timer(clock=manual_clock)
    async with Broker(timer=timer) as broker, PlainClient(broker) as idle, PlainClient(broker) as busy:
        await idle.ask(API_VERSIONS, 3)
        manual_clock.advance(599)
        await busy.ask(API_VERSIONS, 3)
        manual_clock.advance(1.1)
        assert await idle.closed()
        await busy.ask(API_VERSIONS, 3)
        assert (broker.connections, timer.pending) == (1, 1)


async def test_a_held_request_keeps_its_connection(manual_clock):
    timer = Timer(clock=manual_clock)
    async with Broker(timer=timer, idle_timeout=10) as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        client.send(FETCH, 12, **fetched("t", 0, max_wait=60_000))
        await until(lambda: broker.node.fetch.pending)
        for _ in range(5):
            manual_clock.advance(10)
            await settle()
        async with PlainClient(broker) as other:
            await other.ask(PRODUCE, 9, **produced("t", batch(b"a")))
        await client.response()
        manual_clock.advance(9)
        await client.ask(API_VERSIONS, 3)
        manual_clock.advance(20.1)
        assert await client.closed()


async def test_connections_that_end_leave_no_timer(manual_clock):
    timer = Timer(clock=manual_clock)
    async with Broker(timer=timer) as broker:
        async with PlainClient(broker) as client:
            await client.ask(API_VERSIONS, 3)
            assert timer.pending == 1
        await until(lambda: not broker.connections)
        assert timer.pending == 0
