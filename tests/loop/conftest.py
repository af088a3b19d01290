"""The worlds every test of the timer runs in."""

import pytest

from tests.loop.worlds import ManualWorld, SteppedWorld, World


@pytest.fixture(params=[ManualWorld, SteppedWorld], ids=["manual clock", "clock on the loop"])
def world(request: pytest.FixtureRequest) -> World:
    return request.param()
