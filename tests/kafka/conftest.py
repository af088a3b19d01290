"""Fixtures of the broker's tests."""

import pytest

from tests.kafka.desk import Desk


@pytest.fixture
def desk(manual_clock):
    """A node with one topic of two partitions, ``t``."""
    desk = Desk(manual_clock)
    desk.node.topics.create("t", [(0,), (0,)])
    yield desk
    desk.node.close()


@pytest.fixture
def replicated(manual_clock):
    """The first of two brokers; it leads partition 0 of ``r``, and the other partition 1."""
    desk = Desk(manual_clock, brokers=2)
    desk.node.topics.create("r", [(0, 1), (1, 0)])
    desk.node.topics.create("t", [(0,)])
    yield desk
    desk.node.close()
