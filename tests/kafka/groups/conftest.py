"""What the tests of the broker share."""

import pytest

from tests.kafka.groups.consumers import DELAY_S, Consumers


@pytest.fixture
def consumers(purgatory, manual_clock):
    """Consumers of a coordinator without an initial delay; it is closed in the end."""
    consumers = Consumers(purgatory, manual_clock)
    yield consumers
    consumers.coordinator.close()


@pytest.fixture
def newcomers(purgatory, manual_clock):
    """Consumers of a coordinator with the initial delay of a broker."""
    consumers = Consumers(purgatory, manual_clock, initial_delay_s=DELAY_S)
    yield consumers
    consumers.coordinator.close()
