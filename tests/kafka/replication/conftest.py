"""Fixtures of several brokers."""

import pytest

from tests.kafka.replication.desks import Desks


@pytest.fixture
def desks(manual_clock):
    """Three brokers; none knows a topic."""
    desks = Desks(manual_clock, min_insync=2)
    yield desks
    desks.close()
