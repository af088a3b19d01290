"""The pytest plugin: a manual clock, a purgatory that is checked at teardown, a Kafka broker, and two markers.

The package installs it (entry point ``purgatory_async``); request the fixtures by name. pytest-asyncio runs an async
test that has one of the markers; it needs no other. ``virtual_time`` gives it a `VirtualTimeLoop`, ``cancel_sweep``
makes it the scenario of a `cancel_sweep`.
"""

from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import pytest

from purgatory_async.loop.purgatory import Purgatory
from purgatory_async.loop.timer import Timer
from purgatory_async.testing._clock import ManualClock
from purgatory_async.testing._loop import VirtualTimeLoop
from purgatory_async.testing._settle import assert_clean, settle
from purgatory_async.testing._sweep import cancel_sweep

if TYPE_CHECKING:
    from purgatory_async.kafka.testing import KafkaBroker, SyncKafkaBroker

Run = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]


_MARKERS: Final = {
    "virtual_time": "virtual_time: run this async test on a loop that jumps to its next timer",
    "cancel_sweep": "cancel_sweep(may_swallow=False): run this async test again and again, cancelled at each point "
    "where it is suspended",
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    broker = "kafka_broker(**settings): settings of the broker that kafka_broker or kafka_broker_sync starts"
    for line in (*_MARKERS.values(), broker):
        config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> None:
    """Let pytest-asyncio run a marked test, unless anyio's plugin does."""
    names = {mark.name for mark in (*getattr(obj, "pytestmark", ()), *collector.iter_markers())}
    if iscoroutinefunction(obj) and names & _MARKERS.keys() and not names & {"asyncio", "anyio"}:
        pytest.mark.asyncio(obj)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Give a test in virtual time its loop; no other test sees a loop factory of this plugin."""
    manager = metafunc.config.pluginmanager
    is_virtual = metafunc.definition.get_closest_marker("virtual_time") is not None
    if is_virtual:
        manager.register(_VIRTUAL_TIME)
    try:
        yield
    finally:
        if is_virtual:
            manager.unregister(_VIRTUAL_TIME)


class _VirtualTime:
    """Answers pytest-asyncio's question for the loops of a test."""

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_asyncio_loop_factories(self) -> Mapping[str, Callable[[], VirtualTimeLoop]]:
        """The only loop of a test in virtual time."""
        return {"virtual_time": VirtualTimeLoop}


_VIRTUAL_TIME: Final = _VirtualTime()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make a marked test the scenario of a sweep."""
    marker = item.get_closest_marker("cancel_sweep")
    if marker is not None and isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
        item.obj = _swept(item, item.obj, marker.kwargs)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marked test that would not run as its marker says."""
    hook = getattr(item.config.hook, "pytest_asyncio_loop_factories", None)
    has_factories = hook is not None and hook.has_spec()  # since pytest-asyncio 1.4
    for name in _MARKERS:
        if item.get_closest_marker(name) is None:
            continue
        why = None
        if not (isinstance(item, pytest.Function) and iscoroutinefunction(item.obj)):
            why = "is no async function; make it async, or remove the marker"
        elif item.get_closest_marker("asyncio") is None:
            if name == "virtual_time":
                loop = "('asyncio', {'loop_factory': VirtualTimeLoop})"
                why = f"is run by anyio's plugin; let anyio_backend be {loop}, and remove the marker"
        elif not has_factories:
            why = 'needs pytest-asyncio to run; run: pip install "pytest-asyncio>=1.4"'
        if why is not None:
            pytest.fail(f"{item.name}, marked {name}, {why}", pytrace=False)


def _swept(
    item: pytest.Function, test: Callable[..., Coroutine[Any, Any, object]], settings: Mapping[str, Any]
) -> Callable[..., Coroutine[Any, Any, None]]:
    """The sweep of a test; after each run nothing may be left in the fixture `purgatory`."""

    @wraps(test)
    async def sweep(**fixtures: object) -> None:
        """Sweep the test."""
        purgatory = item.funcargs.get("purgatory")
        check = partial(_check, purgatory) if isinstance(purgatory, Purgatory) else None
        await cancel_sweep(partial(test, **fixtures), check=check, **settings)

    return sweep


async def _check(purgatory: Purgatory) -> None:
    await settle()
    assert_clean(purgatory)


@pytest.fixture
def manual_clock() -> ManualClock:
    """A `ManualClock` at zero."""
    return ManualClock()


@pytest.fixture
def purgatory(request: pytest.FixtureRequest, manual_clock: ManualClock) -> Iterator[Purgatory]:
    """A `Purgatory` on `manual_clock`; an error at teardown names pending operations, their keys and waiting tasks.

    For sync tests, and for async ones on asyncio, run by pytest-asyncio or by anyio's plugin. In a test marked
    ``virtual_time`` it is on the loop's clock.
    """
    is_virtual = request.node.get_closest_marker("virtual_time") is not None
    with _runner_held(request):
        timer = Timer(clock=None if is_virtual else manual_clock)
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
