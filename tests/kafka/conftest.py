"""Fixtures of the broker's tests."""

import pytest

from tests.kafka.desk import Desk


@pytest.fixture
def desk(manual_clock):
    """A node with one topic of two partitions, ``t``."""
    desk = Desk(manual_clock)
    desk.node.topics.create("t", 2)
    yield desk
    desk.node.close()
