"""How the suite runs: which event loops, which random data, and what is left out where an extra is missing.

Every test marked ``@pytest.mark.asyncio`` runs once on each loop of `default_loops`. A test that wants others
names them, ``@pytest.mark.asyncio(loop_factories=["uvloop"])``, and is skipped where that loop is not there.
The loops' names are the ids in the report: ``test_x[asyncio]``, ``test_x[uvloop]``. ``--loop uvloop`` leaves out
what has another one of several.
"""

import asyncio
import faulthandler
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

TESTS = Path(__file__).parent
FILE = pytest.StashKey[Path]()  # of the test before, in its session

# Seconds; a test that takes this long hangs: its process ends, and its stacks tell where. Longer than the longest takes
# on a busy machine: on CPython 3.11 looking at the stack of a thread that still runs can crash.
HANGS_S = 600

# Parts of the tree that need an extra, and a module of that extra.
NEEDS_EXTRA = {
    "cli": "click",
    "agents": "httpx2",
    "bench/journal": "msgspec",
    "bench/pipeline": "pyspark",
    "cli/test_kafka.py": "confluent_kafka",
    "cli/test_pipeline.py": "pyarrow",
    "client": "httpx2",
    "client/test_clients.py": "msgspec",
    "client/test_durations.py": "msgspec",
    "client/test_over_sockets.py": "msgspec",
    "client/test_work_served.py": "msgspec",
    "cluster/test_async_apply.py": "msgspec",
    "cluster/test_cluster.py": "msgspec",
    "cluster/test_postgres.py": "asyncpg",
    "cluster/test_cluster_gaps.py": "msgspec",
    "cluster/test_cluster_processes.py": "msgspec",
    "cluster/test_server_faults.py": "msgspec",
    "cluster/test_told.py": "msgspec",
    "deploy": "yaml",
    "durable": "msgspec",
    "durable/checkpoints/test_urls.py": "asyncpg",
    "durable/library": "httpx2",
    "journal": "msgspec",
    "journal/test_lines.py": "pyarrow",
    "journal/test_parquet.py": "pyarrow",
    "journal/test_retention.py": "pyarrow",
    "journal/test_rotation.py": "pyarrow",
    "kafka": "kio",
    "kafka/test_admin_clients.py": "confluent_kafka",
    "kafka/test_clients.py": "confluent_kafka",
    "kafka/test_clients_of_other_languages.py": "confluent_kafka",
    "kafka/test_features.py": "confluent_kafka",
    "otel": "opentelemetry.sdk",
    "patterns/test_broadcast_of.py": "msgspec",
    "pipeline": "pyspark",
    "pipeline/test_questions_page.py": "duckdb",
    "service": "msgspec",
    "service/access/test_access_origin.py": "starlette",
    "service/test_app.py": "starlette",
    "shop": "httpx2",
    "site/test_built_site.py": "playwright",
    "site/test_generators.py": "prometheus_client",
    "soak/chaos": "msgspec",
    "soak/promises": "msgspec",
    "soak/rolling": "msgspec",
    "soak/shop": "httpx2",
    "site/test_howto.py": "httpx2",
    "site/test_runbook.py": "yaml",
    "test_ask_a_person.py": "click",
    "test_ask_page.py": "click",
    "test_metrics.py": "prometheus_client",
    "ui": "playwright",
    "web/servers": "aiohttp",
    "web/servers/test_streams.py": "msgspec",
    "web/test_events_of_cluster.py": "msgspec",
}


def default_loops() -> dict[str, LoopFactory]:
    """The loops every async test runs on, by name."""
    loops: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop}
    if find_spec("uvloop") is not None:
        loops["uvloop"] = new_uvloop
    if hasattr(asyncio, "eager_task_factory"):
        loops["eager"] = new_eager_loop
    return loops


def new_uvloop() -> asyncio.AbstractEventLoop:
    """A uvloop loop."""
    import uvloop  # noqa: PLC0415 - the suite also runs where it is not installed

    return uvloop.new_event_loop()


def new_eager_loop() -> asyncio.AbstractEventLoop:
    """A stock loop whose tasks run up to their first suspension inside `create_task` (from CPython 3.12)."""
    loop = asyncio.SelectorEventLoop()
    loop.set_task_factory(asyncio.eager_task_factory)
    return loop


def new_virtual_loop() -> asyncio.AbstractEventLoop:
    """The loop of `purgatory_async.testing` whose time jumps; only for tests that ask for ``"virtual"``."""
    from purgatory_async.testing import VirtualTimeLoop  # noqa: PLC0415 - only those tests need it

    return VirtualTimeLoop()


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Give pytest-asyncio the default loops, and the virtual one to a test that names its loops."""
    loops = default_loops()
    marker = item.get_closest_marker("asyncio")
    if marker is not None and "loop_factories" in marker.kwargs:
        loops["virtual"] = new_virtual_loop
    return loops


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run that is about something else than loops have one of them."""
    parser.addoption("--loop", choices=default_loops(), help="the loop of tests that run on several")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``--loop`` does not name, where a test also runs on the loop that it names."""
    chosen = config.getoption("--loop", None)
    if chosen is not None:
        others = [factory for name, factory in default_loops().items() if name != chosen]
        kept: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            kept[not may_run_on(item, chosen) or not has_one_of(item, others)].append(item)
        items[:] = kept[True]
        config.hook.pytest_deselected(items=kept[False])


def may_run_on(item: pytest.Item, loop: str) -> bool:
    """Whether the marker of a test leaves it this loop."""
    marker = item.get_closest_marker("asyncio")
    named = marker.kwargs.get("loop_factories") if marker is not None else None
    return named is None or loop in named


def has_one_of(item: pytest.Item, factories: list[LoopFactory]) -> bool:
    """Whether a test has one of these loops among its parameters."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(value is factory for value in parameters for factory in factories)


def pytest_configure(config: pytest.Config) -> None:
    """Fix the random data in CI, and load our own plugin where the package is not installed."""
    # A deadline, or a bound on slow draws, times the machine and not the code. Where a commit is judged, it must be
    # judged alike twice; elsewhere each run draws anew.
    untimed = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.register_profile("local", untimed)
    hypothesis.settings.register_profile("ci", untimed, derandomize=True, print_blob=True)
    judged = os.environ.get("CI") == "true" or os.environ.get("DRAWS") == "fixed"
    hypothesis.settings.load_profile("ci" if judged else "local")
    config.pluginmanager.register(Watchdog())
    if not config.pluginmanager.has_plugin("purgatory_async"):
        config.pluginmanager.import_plugin("purgatory_async.testing.plugin")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save what a worker of pytest-xdist covered while it lives: one that takes 10 s to exit is killed."""
    if hasattr(session.config, "workerinput") and (coverage := sys.modules.get("coverage")):
        running = coverage.Coverage.current()
        if running:
            running.save()


class Watchdog:
    """End the process when a test hangs.

    pytest's own option starts a thread for each test, which must get the processor and end before the next test
    begins: on a busy machine that took longer than most tests. This one starts its thread anew once a minute.
    """

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # while tests run, 2 is captured
        self._due = 0.0

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Give the next test its time."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + HANGS_S / 10
            faulthandler.dump_traceback_later(HANGS_S * 1.1, exit=True, file=self._stderr)

    def pytest_enter_pdb(self) -> None:
        """Let a person think."""
        faulthandler.cancel_dump_traceback_later()
        self._due = float("inf")

    def pytest_unconfigure(self) -> None:
        """Let what ends the process take its time."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector forget the suite itself."""
    forget_what_stays()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before each file let the collector forget what others have left for good: imports, reports, caches.

    Not after their last test: pytest still has what its fixtures made, which nothing would collect any more.
    """
    if item.session.stash.get(FILE, item.path) != item.path:
        forget_what_stays()
    item.session.stash[FILE] = item.path


def forget_what_stays() -> None:
    """Take everything that is alive out of the collector's sight.

    Many tests ask the collector what they left behind; each time it would walk all that the suite holds, which
    took more time than everything else. The set of all tasks also keeps the room of its largest crowd, and `settle`
    walks it on uvloop: after a million tasks each pass took two hundred times as long.
    """
    gc.collect()
    gc.freeze()
    for name in ("_all_tasks", "_scheduled_tasks"):  # up to CPython 3.11, and after it
        tasks = getattr(asyncio.tasks, name, None)
        if tasks is not None:
            tasks.data = set(tasks.data)


@cache
def left_out() -> dict[str, str]:
    """Paths under tests/ that are not collected here, each with the distribution that is missing."""
    return {path: module for path, module in NEEDS_EXTRA.items() if not _is_installed(module)}


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is what it is in
        return False


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of an extra that is not installed; everything else must import."""
    return True if any(collection_path == TESTS / path for path in left_out()) else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Report which loops run and what is left out, so that a green result cannot hide it."""
    missing = [f"{path} ({module} is not installed)" for path, module in left_out().items()]
    return [f"loops: {', '.join(default_loops())}", *([f"left out: {', '.join(missing)}"] if missing else [])]
