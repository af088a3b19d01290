"""What the tests of the agents' examples share."""

from contextlib import ExitStack

import pytest

from tests.agents.running import Scene


@pytest.fixture
def stage(tmp_path):
    """Make a scene on a store."""
    with ExitStack() as stack:
        yield lambda store="sqlite": Scene(tmp_path, stack, store)
