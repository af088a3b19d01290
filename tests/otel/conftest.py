"""Fixtures of the tests of spans."""

import pytest

from tests.otel.spans import Recorded


@pytest.fixture
def spans():
    return Recorded()
