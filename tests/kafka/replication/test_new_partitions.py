"""A follower asks for a new partition at once, though its leader holds a fetch that does not name it; virtual time."""

import asyncio

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch
from tests.kafka.protocol import PRODUCE
from tests.kafka.socketless import produced

pytestmark = pytest.mark.asyncio


async def held_fetch(cluster, follower: int, leader: int):
    """A fetch that the leader holds."""
    fetch = asyncio.ensure_future(cluster.fetch(follower, leader, waits=True))
    await settle()
    assert not fetch.done()
    return fetch


async def assert_replicated(cluster):
    """The new topic's partition, which broker 1 leads, has broker 2 as its follower."""
    produce = cluster[1].begin(PRODUCE, 9, **produced("t", batch(b"a")))
    await settle()
    for _ in range(2):
        await cluster.fetch(2, 1)
    assert (await produce).responses[0].partition_responses[0].error_code is ErrorCode.none


async def test_a_new_topic_ends_the_fetch_that_lacks_it(cluster):
    await cluster.settle()
    held = await held_fetch(cluster, 2, 1)
    cluster[0].node.controller.create("t", [(1, 2)])
    await cluster.fetch(1, 0)
    await cluster.fetch(2, 0)
    await settle()
    assert held.done(), "the leader holds a fetch that does not name the new partition"
    with pytest.raises(EOFError):
        await held
    await assert_replicated(cluster)


async def test_a_topic_of_other_brokers_ends_no_fetch(cluster):
    await cluster.settle()
    held = await held_fetch(cluster, 2, 1)
    cluster[0].node.controller.create("t", [(0, 2), (2, 1), (1, 0)])
    await cluster.fetch(2, 0)
    await settle()
    assert not held.done()
    held.cancel()


async def test_a_fetch_after_one_that_was_ended_is_answered(cluster):
    """Or a follower that learns of topics without a pause would never hear from its leader."""
    await cluster.settle()
    held = await held_fetch(cluster, 2, 1)
    cluster[0].node.controller.create("t", [(1, 2)])
    await cluster.fetch(1, 0)
    await cluster.fetch(2, 0)
    await settle()
    assert held.done()
    with pytest.raises(EOFError):
        await held
    next_one = asyncio.ensure_future(cluster.fetch(2, 1, waits=True))
    await settle()
    assert next_one.done()


async def test_a_leader_that_learns_of_its_topic_answers_at_once(cluster):
    await cluster.settle()
    cluster[0].node.controller.create("t", [(1, 2)])
    await cluster.fetch(2, 0)
    held = await held_fetch(cluster, 2, 1)
    await cluster.fetch(1, 0)
    await settle()
    assert held.done(), "the leader knows the topic now, and holds its follower's fetch for it"
    await assert_replicated(cluster)
