"""The promise behind every async test: it runs once on each loop, and its id names that loop."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import forget_what_stays

ROOT = Path(__file__).parent.parent
ONE = """
import weakref

import pytest

made = []

class Circle:
    def __init__(self):
        self.itself = self
        made.append(weakref.ref(self))

@pytest.fixture
def circle():
    return Circle()

def test_with_it(circle):
    assert made[0]() is circle
"""
OTHER = """
import test_one

def test_it_is_gone():
    assert test_one.made[0]() is None
"""


def named_loop(request: pytest.FixtureRequest) -> str:
    return request.node.callspec.id


@pytest.mark.asyncio
async def test_an_async_test_runs_on_the_loop_that_its_id_names(request: pytest.FixtureRequest) -> None:
    loop = asyncio.get_running_loop()
    if named_loop(request) == "uvloop":
        assert type(loop).__module__ == "uvloop"
    else:
        assert type(loop) is asyncio.SelectorEventLoop


@pytest.mark.asyncio
async def test_only_the_eager_loop_starts_a_task_at_its_creation(
    request: pytest.FixtureRequest,
) -> None:
    begun = []

    async def begin() -> None:
        begun.append(True)

    task = asyncio.create_task(begin())
    assert bool(begun) is (named_loop(request) == "eager")
    await task


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_a_test_that_asks_for_the_virtual_loop_waits_no_time() -> None:
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(86_400)
    assert asyncio.get_running_loop().time() - before >= 86_400


def loops_of(test: Callable[..., object], *options: str) -> list[str]:
    """The loops that a test of this file is collected for, in a run with these options."""
    listed = run_pytest("--collect-only", *options, f"tests/{Path(__file__).name}::{test.__name__}")
    assert not listed.returncode, listed.stdout
    lines = [line.rpartition("::")[2] for line in listed.stdout.splitlines() if "::" in line]
    # pytest shows no id for a single one.
    return sorted(line.partition("[")[2].rstrip("]") or "asyncio" for line in lines)


def test_an_async_test_is_collected_for_every_loop_there_is() -> None:
    expected = ["asyncio"]
    expected += ["uvloop"] if find_spec("uvloop") else []
    expected += ["eager"] if hasattr(asyncio, "eager_task_factory") else []
    assert loops_of(test_an_async_test_runs_on_the_loop_that_its_id_names) == sorted(expected)


@pytest.mark.skipif(find_spec("uvloop") is None, reason="needs a second loop")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_with_a_loop_chosen_it_is_collected_for_that_one(loop: str) -> None:
    assert loops_of(test_an_async_test_runs_on_the_loop_that_its_id_names, "--loop", loop) == [loop]


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_crowd_of_tasks_leaves_no_room_behind() -> None:
    forget_what_stays()
    before = room_of_all_tasks()
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(10_000)))
    await asyncio.sleep(0)  # until here this task holds what woke it
    assert room_of_all_tasks() > 10 * before
    forget_what_stays()
    assert room_of_all_tasks() <= before


def room_of_all_tasks() -> int:
    """The bytes of the set in which asyncio keeps them."""
    tasks = getattr(asyncio.tasks, "_all_tasks", None) or asyncio.tasks._scheduled_tasks
    return sys.getsizeof(tasks.data)


def test_what_a_fixture_made_does_not_outlive_its_file(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(ONE)
    (tmp_path / "test_other.py").write_text(OTHER)
    ran = run_pytest("-p", "tests.conftest", "--rootdir", str(tmp_path), str(tmp_path))
    assert "2 passed" in ran.stdout, ran.stdout


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
