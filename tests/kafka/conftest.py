"""Fixtures of the broker's tests."""

import pytest

from tests.kafka.socketless import SocketlessBroker


@pytest.fixture
def broker(manual_clock):
    """A node with one topic of two partitions, ``t``."""
    broker = SocketlessBroker(manual_clock)
    broker.node.topics.create("t", [(0,), (0,)])
    yield broker
    broker.node.close()


@pytest.fixture
def replicated(manual_clock):
    """The first of two brokers; it leads partition 0 of ``r``, and the other partition 1."""
    broker = SocketlessBroker(manual_clock, brokers=2)
    broker.node.topics.create("r", [(0, 1), (1, 0)])
    broker.node.topics.create("t", [(0,)])
    yield broker
    broker.node.close()
