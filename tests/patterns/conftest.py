"""What the tests of one pattern share."""

import pytest

from purgatory_async.patterns import Correlator, HandOff


@pytest.fixture
def calls(purgatory):
    """Requests in the purgatory of the test."""
    return Correlator(purgatory)


@pytest.fixture
def jobs(purgatory):
    """Queues in the purgatory of the test."""
    return HandOff(purgatory)
