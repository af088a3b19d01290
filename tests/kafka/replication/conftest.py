"""Fixtures of several brokers."""

import pytest

from tests.kafka.replication.socketless_cluster import SocketlessCluster


@pytest.fixture
def cluster(manual_clock):
    """Three brokers; none knows a topic."""
    cluster = SocketlessCluster(manual_clock, min_insync=2)
    yield cluster
    cluster.close()
