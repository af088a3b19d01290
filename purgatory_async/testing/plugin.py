"""The pytest plugin: a manual clock, a purgatory on it that is checked at teardown, and a Kafka broker.

The package installs it (entry point ``purgatory_async``); request the fixtures by name.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from purgatory_async.loop.purgatory import Purgatory
from purgatory_async.loop.timer import Timer
from purgatory_async.testing._clock import ManualClock
from purgatory_async.testing._settle import assert_clean

if TYPE_CHECKING:
    from purgatory_async.kafka.testing import KafkaBroker, SyncKafkaBroker

Run = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of `kafka_broker`."""
    config.addinivalue_line(
        "markers",
        "kafka_broker(**settings): settings of the broker that kafka_broker or kafka_broker_sync starts",
    )


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


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[KafkaBroker]":
    """A Kafka broker in memory on the test's loop; sessions and waits are on `manual_clock` if the test uses it.

    For async tests, run by pytest-asyncio or by anyio's plugin. ``pytest.mark.kafka_broker(partitions=3)`` gives it
    settings. It needs the extra ``kafka``, which other tests do not load.
    """
    broker = _made(request, "KafkaBroker")
    with _runner_held(request) as run:
        if run is None:
            pytest.fail(
                f"kafka_broker runs on a test's event loop: cannot serve {request.node.name}, which has none; "
                "make it async, or use kafka_broker_sync",
                pytrace=False,
            )
        run(broker.__aenter__)
        try:
            yield broker
        finally:
            run(broker.__aexit__)


@pytest.fixture
def kafka_broker_sync(request: pytest.FixtureRequest) -> "Iterator[SyncKafkaBroker]":
    """A Kafka broker in memory in a thread, for a test that is a plain function; otherwise as `kafka_broker`.

    A test that advances `manual_clock` waits until what was due has run on the broker's loop.
    """
    with _made(request, "SyncKafkaBroker") as broker:
        yield broker


def _made(request: pytest.FixtureRequest, name: str) -> Any:
    """Make the broker of a fixture; it is not started yet."""
    try:
        from purgatory_async.kafka import testing  # noqa: PLC0415 - tests without a broker do not load it
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        pytest.fail(
            f'{request.fixturename} needs {missing}; run: pip install "purgatory-async[kafka]"', pytrace=False
        )
    clock = request.getfixturevalue("manual_clock") if "manual_clock" in request.fixturenames else None
    marker = request.node.get_closest_marker("kafka_broker")
    return getattr(testing, name)(clock=clock, **({} if marker is None else marker.kwargs))


@contextmanager
def _runner_held(request: pytest.FixtureRequest) -> Iterator[Run | None]:
    """Keep an async test's runner open: closing it cancels the waiting tasks and hides them.

    Yields:
        What runs an async function on the test's loop; None for a sync test.
    """
    runners = [  # pytest-asyncio's: what is set up first is torn down last
        request.getfixturevalue(name) for name in request.fixturenames if name.endswith("_scoped_runner")
    ]
    if "anyio_backend" not in request.fixturenames:
        yield (lambda function: runners[0].run(function())) if runners else None
        return
    backend = request.getfixturevalue("anyio_backend_name")
    if backend != "asyncio":
        pytest.fail(
            f"{request.fixturename} is a fixture for asyncio: cannot run on {backend}; "
            "let anyio_backend be 'asyncio'",
            pytrace=False,
        )
    from anyio.pytest_plugin import get_runner  # noqa: PLC0415 - loaded where anyio's plugin runs the test

    with get_runner(backend, request.getfixturevalue("anyio_backend_options")) as runner:
        yield lambda function: runner.run_fixture(function, {})
