"""The pytest plugin: a clock, a purgatory on it, and a teardown error that says what was left in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_async import DelayedOperation

ROOT = Path(__file__).parent.parent.parent

LEAKING = """
from purgatory_async import DelayedOperation

class Parcel(DelayedOperation):
    pass

def test_leaks(purgatory):
    purgatory.try_complete_else_watch(Parcel(timeout=3600), ["door", ("floor", 3)])
"""

CLEAN = """
from purgatory_async import DelayedOperation, Outcome

def test_is_clean(purgatory, manual_clock):
    operation = DelayedOperation(timeout=3600)
    purgatory.try_complete_else_watch(operation, ["door"])
    manual_clock.advance(3600)
    assert operation.outcome is Outcome.EXPIRED
"""

WAITING = """
import asyncio
import pytest
from purgatory_async.testing import settle

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.{runner}
async def test_leaves_a_task_that_waits(purgatory):
    asyncio.ensure_future(purgatory.wait("door", timeout=3600))
    await settle()

@{fixture}.fixture
async def server(purgatory):
    task = asyncio.ensure_future(purgatory.wait("door"))
    yield
    task.cancel()
    await settle()

@pytest.mark.{runner}
async def test_has_a_fixture_that_waits(server, purgatory):
    await settle()
    assert purgatory.pending == 1
"""

ON_TRIO = """
import pytest

@pytest.fixture
def anyio_backend():
    return "trio"

@pytest.mark.anyio
async def test_is_trios(purgatory):
    raise AssertionError("it does not come this far")
"""

WITH_BROKER = """
import asyncio
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.{runner}
async def test_runs_on_the_brokers_loop(kafka_broker):
    reader, writer = await asyncio.open_connection(kafka_broker.host, kafka_broker.port)
    held = asyncio.ensure_future(kafka_broker.next_request("ApiVersions"))
    await asyncio.sleep(0)
    writer.write(bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0, 0]))
    await held
    writer.close()
"""

WITH_SYNC_BROKER = """
import asyncio
import threading
import pytest

@pytest.mark.kafka_broker(partitions=2)
def test_fails(kafka_broker_sync):
    kafka_broker_sync.produce("t", b"a", partition=1)
    raise AssertionError("the test itself")

def test_finds_no_thread_of_the_one_before():
    assert threading.active_count() == 1

@pytest.mark.{runner}
async def test_is_async(kafka_broker_sync):
    kafka_broker_sync.produce("t", b"a")

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

WITHOUT_A_LOOP = """
def test_is_sync(kafka_broker):
    raise AssertionError("it does not come this far")
"""

WITHOUT_THE_EXTRA = """
import sys
sys.modules["kio"] = None

def test_needs_kio(kafka_broker):
    raise AssertionError("it does not come this far")
"""

WITHOUT_BROKER = """
import sys

def test_loads_nothing_of_kafka(purgatory):
    assert not [name for name in sys.modules if name.startswith(("kio", "purgatory_async.kafka"))]
"""

MARKED = """
import asyncio
import pytest
from purgatory_async import OperationExpired

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.virtual_time
async def test_jumps(purgatory):
    with pytest.raises(OperationExpired):
        await purgatory.wait("door", timeout=3600)
    assert asyncio.get_running_loop().time() == purgatory.timer.time() == 3600

@pytest.mark.asyncio
async def test_beside_it_has_real_time():
    assert type(asyncio.get_running_loop()).__name__ != "VirtualTimeLoop"

@pytest.mark.cancel_sweep
@pytest.mark.virtual_time
class TestBoth:
    @pytest.mark.parametrize("hours", [1, 2])
    async def test_a_class_may_be_marked(self, purgatory, hours):
        with pytest.raises(OperationExpired):
            await purgatory.wait("door", timeout=3600 * hours)

@pytest.mark.cancel_sweep(may_swallow=True)
async def test_swallows():
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass

@pytest.mark.cancel_sweep
@pytest.mark.anyio
async def test_is_anyios(purgatory):
    asyncio.get_running_loop().call_soon(purgatory.complete_for_key, "door", 7)
    assert await purgatory.wait("door") == 7
"""

MISMARKED = """
import asyncio
import pytest

@pytest.mark.cancel_sweep
async def test_forgets_a_task_when_cancelled(purgatory):
    task = asyncio.create_task(purgatory.wait("door"), name="the forgotten one")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()

@pytest.mark.cancel_sweep
async def test_swallows():
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass

@pytest.mark.virtual_time
def test_is_plain():
    pass

@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_is_anyios():
    pass
"""

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio")


class Report:
    """pytest's report on a file of tests."""

    def __init__(self, folder: Path, text: str, *options: str) -> None:
        (folder / "test_it.py").write_text(text)
        # Not the settings of this suite, nor any plugin but ours.
        arguments = [
            "-p",
            "no:cacheprovider",
            "-p",
            "purgatory_async.testing.plugin",
            "-c",
            "none.ini",
            *options,
        ]
        (folder / "none.ini").write_text("[pytest]\n")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=folder,
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        self.text = ended.stdout + ended.stderr
        self.summary = self.text.strip().splitlines()[-1]


def test_a_leak_is_a_teardown_error_with_operation_and_keys(
    tmp_path: Path,
) -> None:
    report = Report(tmp_path, LEAKING)
    assert "1 passed, 1 error" in report.summary
    assert "ERROR at teardown of test_leaks" in report.text
    assert "Parcel pending on 'door', ('floor', 3)" in report.text


def test_a_clean_test_just_passes(tmp_path: Path) -> None:
    report = Report(tmp_path, CLEAN)
    assert report.summary.split(" in ")[0].strip("= ") == "1 passed", report.text


def test_each_test_has_a_purgatory_of_its_own(tmp_path: Path) -> None:
    report = Report(tmp_path, LEAKING + CLEAN)
    assert "2 passed, 1 error" in report.summary


def test_a_failing_test_is_distinguished_from_its_leak(tmp_path: Path) -> None:
    report = Report(tmp_path, LEAKING + "    assert purgatory.closed, 'the test itself'\n")
    assert "1 failed, 1 error" in report.summary
    assert "the test itself" in report.text


@pytest.mark.parametrize(
    ("runner", "fixture", "options"),
    [("asyncio", "__import__('pytest_asyncio')", ASYNCIO), ("anyio", "pytest", ANYIO)],
    ids=["pytest-asyncio", "anyio"],
)
def test_a_task_that_still_waits_is_a_teardown_error(tmp_path: Path, runner, fixture, options) -> None:
    report = Report(tmp_path, WAITING.format(runner=runner, fixture=fixture), *options)
    assert "2 passed, 1 error" in report.summary, report.text
    assert "ERROR at teardown of test_leaves_a_task_that_waits" in report.text
    assert "KeyedWait pending on 'door'" in report.text


def test_markers_give_virtual_time_and_sweeps(tmp_path: Path) -> None:
    report = Report(tmp_path, MARKED, *ASYNCIO, *ANYIO, "-W", "error", "--strict-markers")
    assert report.summary.split(" in ")[0].strip("= ") == "6 passed", report.text


def test_a_marked_test_that_leaks_or_cannot_run_says_why(tmp_path: Path) -> None:
    report = Report(tmp_path, MISMARKED, *ASYNCIO, *ANYIO)
    assert "2 failed, 3 errors" in report.summary, report.text
    for sentence in (
        "KeyedWait pending on 'door' timeout=None>, awaited by <Task pending name='the forgotten one'",
        "cancel_sweep: the scenario was cancelled at point 1, while it waited",
        "the scenario swallowed its cancellation at point 1, while it waited: it returned",
        "test_is_plain, marked virtual_time, is no async function; make it async, or remove the marker",
        "test_is_anyios[asyncio], marked virtual_time, is run by anyio's plugin; let anyio_backend be ('asyncio', ",
    ):
        assert sentence in report.text


def test_a_marked_test_without_pytest_asyncio_says_so(tmp_path: Path) -> None:
    report = Report(tmp_path, MISMARKED, "-k", "forgets")
    assert 'needs pytest-asyncio to run; run: pip install "pytest-asyncio>=1.4"' in report.text


def test_on_trio_the_fixture_says_that_it_is_asyncios(tmp_path: Path) -> None:
    report = Report(tmp_path, ON_TRIO, *ANYIO)
    assert "1 error" in report.summary, report.text
    assert (
        "purgatory is a fixture for asyncio: cannot run on trio; let anyio_backend be 'asyncio'"
        in report.text
    )
    assert "it does not come this far" not in report.text.partition("ERRORS")[2]


@pytest.mark.slow
@pytest.mark.parametrize(("runner", "options"), [("asyncio", ASYNCIO), ("anyio", ANYIO)])
def test_a_broker_runs_on_the_loop_of_the_test(tmp_path: Path, runner, options) -> None:
    pytest.importorskip("kio")
    report = Report(tmp_path, WITH_BROKER.format(runner=runner), *options)
    assert report.summary.split(" in ")[0].strip("= ") == "1 passed", report.text


@pytest.mark.slow
@pytest.mark.parametrize(("runner", "options"), [("asyncio", ASYNCIO), ("anyio", ANYIO)])
def test_a_broker_in_a_thread_serves_plain_functions(tmp_path: Path, runner, options) -> None:
    pytest.importorskip("kio")
    report = Report(tmp_path, WITH_SYNC_BROKER.format(runner=runner), *options)
    assert "2 failed, 1 passed" in report.summary, report.text
    assert "AssertionError: the test itself" in report.text
    assert "cannot be called on a running event loop; let the test be a plain function" in report.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (WITHOUT_A_LOOP, "cannot serve test_is_sync, which has none; make it async"),
        (WITHOUT_THE_EXTRA, 'kafka_broker needs kio; run: pip install "purgatory-async[kafka]"'),
    ],
    ids=["without a loop", "without the extra"],
)
def test_a_broker_that_cannot_start_says_why(tmp_path: Path, text, sentence) -> None:
    report = Report(tmp_path, text)
    assert "1 error" in report.summary, report.text
    assert sentence in report.text


def test_a_suite_without_a_broker_loads_nothing_of_it(tmp_path: Path) -> None:
    report = Report(tmp_path, WITHOUT_BROKER)
    assert "1 passed" in report.summary, report.text


def test_its_fixtures_are_listed_with_what_they_give(tmp_path: Path) -> None:
    report = Report(tmp_path, CLEAN, "--fixtures")
    for name in ("kafka_broker", "kafka_broker_sync", "manual_clock", "purgatory"):
        assert f"{name} --" in report.text


def test_the_purgatory_stands_on_the_manual_clock(purgatory, manual_clock) -> None:
    manual_clock.advance(1.5)
    assert purgatory.timer.time() == manual_clock.time() == 1.5


@pytest.mark.asyncio
async def test_the_purgatory_serves_an_async_test(purgatory) -> None:
    purgatory.try_complete_else_watch(operation := DelayedOperation(), ["door"])
    assert purgatory.complete_for_key("door", "open") == 1
    assert operation.result == "open"
