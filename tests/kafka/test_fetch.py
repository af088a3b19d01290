"""Fetch: what comes at once, what waits, and what ends a wait."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch, records_in
from tests.kafka.protocol import DELETE_TOPICS, FETCH
from tests.kafka.socketless import fetched

pytestmark = pytest.mark.asyncio


def values_in(answer) -> list[bytes]:
    return [read.value for read in records_in(answer.responses[0].partitions[0].records)]


@pytest.mark.parametrize("version", range(4, 13))
async def test_records_that_are_there_come_at_once(broker, version):
    await broker.produce("t", batch(b"a", b"b"))
    answer = await broker.ask(FETCH, version, **fetched("t", 0))
    part = answer.responses[0].partitions[0]
    assert (part.error_code, part.high_watermark, part.last_stable_offset) == (ErrorCode.none, 2, 2)
    assert values_in(answer) == [b"a", b"b"]


async def test_a_fetch_for_no_partitions_answers_at_once(broker):
    answer = await broker.ask(FETCH, 12, max_wait=30_000, min_bytes=1, topics=[])
    assert (answer.error_code, answer.responses) == (ErrorCode.none, ())


async def test_a_fetch_without_a_wait_answers_with_nothing(broker):
    assert values_in(await broker.ask(FETCH, 12, **fetched("t", 0, max_wait=0))) == []


async def test_a_waiting_fetch_is_answered_by_a_produce(broker):
    held = broker.begin(FETCH, 12, **fetched("t", 0))
    await settle()
    assert (held.done(), broker.node.fetch.pending) == (False, 1)
    await broker.produce("t", batch(b"a"))
    assert values_in(await held) == [b"a"]


async def test_min_bytes_are_gathered_from_all_partitions(broker):
    size = len(batch(b"a"))
    values = fetched("t", 0, min_bytes=2 * size)
    values["topics"][0]["partitions"] += [{"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    held = broker.begin(FETCH, 12, **values)
    await settle()
    await broker.produce("t", batch(b"a"), partition=1)
    await settle()
    assert not held.done()
    await broker.produce("t", batch(b"b"))
    parts = (await held).responses[0].partitions
    assert [[read.value for read in records_in(part.records)] for part in parts] == [[b"b"], [b"a"]]


async def test_at_its_timeout_a_fetch_returns_what_there_is(broker, manual_clock):
    held = broker.begin(FETCH, 12, **fetched("t", 0, min_bytes=10_000, max_wait=500))
    await settle()
    await broker.produce("t", batch(b"a"))
    manual_clock.advance(0.499)
    await settle()
    assert not held.done()
    manual_clock.advance(0.002)
    await settle()
    assert held.done()
    assert values_in(held.result()) == [b"a"]


@pytest.mark.parametrize("offset", [-1, 3, 4])
async def test_an_offset_out_of_range_is_refused_at_once(broker, offset):
    await broker.produce("t", batch(b"a", b"b"))
    answer = await broker.fetch("t", offset, max_wait=30_000)
    assert (answer.error_code, answer.records) == (ErrorCode.offset_out_of_range, b"")


@pytest.mark.parametrize(("topic", "partition"), [("t", 2), ("t", -1), ("other", 0)])
async def test_an_unknown_partition_is_refused_at_once(broker, topic, partition):
    answer = await broker.fetch(topic, 0, partition=partition, max_wait=30_000)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


async def test_the_first_batch_comes_whole_whatever_its_size(broker):
    for _ in range(2):
        await broker.produce("t", batch(b"x" * 5_000))
    for bounds in ({"partition_max_bytes": 10}, {"max_bytes": 10}):
        answer = await broker.fetch("t", 0, **bounds)
        assert [read.offset for read in records_in(answer.records)] == [0]


async def test_only_the_first_partition_may_go_over_the_bytes(broker):
    for partition in (0, 1):
        await broker.produce("t", batch(b"x" * 5_000), partition=partition)
    values = fetched("t", 0, max_bytes=10)
    values["topics"][0]["partitions"] += [{"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    parts = (await broker.ask(FETCH, 12, **values)).responses[0].partitions
    assert [len(records_in(part.records)) for part in parts] == [1, 0]


async def test_a_consumer_waits_for_the_high_watermark_not_the_end(replicated):
    led = replicated.node.topics.partition("r", 0)
    await replicated.produce("r", batch(b"a"), acks=1)
    held = replicated.begin(FETCH, 12, **fetched("r", 0))
    await settle()
    assert not held.done()
    led.follow(1, 1, 0, now=0)
    replicated.node.changed(led)
    assert values_in(await held) == [b"a"]


async def test_deleting_the_topic_ends_a_held_fetch_at_once(broker):
    held = broker.begin(FETCH, 12, **fetched("t", 0, max_wait=30_000))
    await settle()
    await broker.ask(DELETE_TOPICS, 5, topic_names=["t"])
    assert broker.node.fetch.pending == 0
    assert (await held).responses[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


async def test_a_cancelled_fetch_leaves_its_purgatory_at_once(broker):
    held = broker.begin(FETCH, 12, **fetched("t", 0, max_wait=30_000))
    await settle()
    held.cancel()
    await settle()
    assert (broker.node.fetch.pending, broker.node.fetch.keys, broker.node.timer.pending) == (0, 0, 0)


async def test_one_record_answers_a_thousand_fetches(broker):
    held = [broker.begin(FETCH, 12, **fetched("t", 0)) for _ in range(1_000)]
    await settle()
    assert broker.node.fetch.pending == 1_000
    await broker.produce("t", batch(b"a"))
    assert [values_in(await one) for one in held] == [[b"a"]] * 1_000


@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, ())])
@pytest.mark.parametrize("offset", [0, 9])
async def test_aborted_transactions_are_null_or_none(broker, isolation_level, aborted, offset):
    part = await broker.fetch("t", offset, isolation_level=isolation_level, max_wait=0)
    assert part.aborted_transactions == aborted
