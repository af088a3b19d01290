"""The pytest plugin: fixtures for a manual clock and a purgatory on it, checked at teardown.

The package installs it (entry point ``purgatory_async``); request the fixtures by name.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from purgatory_async.loop.purgatory import Purgatory
from purgatory_async.loop.timer import Timer
from purgatory_async.testing._clock import ManualClock
from purgatory_async.testing._settle import assert_clean


@pytest.fixture
def manual_clock() -> ManualClock:
    """A `ManualClock` at zero."""
    return ManualClock()


@pytest.fixture
def purgatory(request: pytest.FixtureRequest, manual_clock: ManualClock) -> Iterator[Purgatory]:
    """A `Purgatory` on `manual_clock`; an error at teardown names pending operations and their keys.

    For sync tests, and for async ones on asyncio, run by pytest-asyncio or by anyio's plugin.
    """
    with _runner_held(request):
        timer = Timer(clock=manual_clock)
        purgatory = Purgatory("purgatory of the test", timer=timer)
        yield purgatory
        try:
            assert_clean(purgatory)
        finally:
            purgatory.close()
            timer.close()


def _runner_held(request: pytest.FixtureRequest) -> AbstractContextManager[object]:
    """Keep an async test's runner open: closing it cancels the waiting tasks and hides them."""
    for name in request.fixturenames:
        if name.endswith("_scoped_runner"):  # pytest-asyncio's: what is set up first is torn down last
            request.getfixturevalue(name)
    if "anyio_backend" not in request.fixturenames:
        return nullcontext()
    backend = request.getfixturevalue("anyio_backend_name")
    if backend != "asyncio":
        pytest.fail(
            f"purgatory is a fixture for asyncio: cannot run on {backend}; let anyio_backend be 'asyncio'",
            pytrace=False,
        )
    from anyio.pytest_plugin import get_runner  # noqa: PLC0415 - loaded where anyio's plugin runs the test

    return get_runner(backend, request.getfixturevalue("anyio_backend_options"))
