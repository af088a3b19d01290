"""Installing the package: with the compiled core where a compiler is, and without it, in one line, elsewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.built import needs_compiled_core
from tests.source_tree import PACKAGE, ROOT

pytestmark = pytest.mark.slow

LEFT_OUT = "purgatory-async: installed without its compiled core: "
USE = """
import asyncio, purgatory_async
async def main():
    async with purgatory_async.Purgatory() as purgatory:
        asyncio.get_running_loop().call_soon(purgatory.complete_for_key, "a", "done")
        print(purgatory_async.compiled, await purgatory.wait("a", timeout=5))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, without an extension."""
    folder = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "build-*")
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def run(*arguments: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these variables in place of the switch's and the compiler's."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PURGATORY_ASYNC_PURE", "CC"}}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**kept, **variables},
        check=False,
        capture_output=True,
        text=True,
    )


def built_wheel(tree: Path, into: Path, **variables: str) -> tuple[Path, str]:
    """Build a wheel; returns it and what the build wrote to standard error."""
    made = run("-m", "hatchling", "build", "-t", "wheel", "-d", into, folder=tree, **variables)
    assert made.returncode == 0, made.stderr
    (wheel,) = into.iterdir()
    return wheel, made.stderr


def used(wheel: Path, folder: Path) -> str:
    """Install a wheel into a folder and use it without a compiler; returns what the program printed."""
    pip = ("-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", folder / "site", wheel)
    installed = run(*pip, folder=folder)
    assert installed.returncode == 0, installed.stderr
    finished = run("-c", USE, folder=folder, PYTHONPATH=str(folder / "site"), PATH=str(folder), CC="/absent")
    assert finished.stderr == ""
    return finished.stdout


@needs_compiled_core
def test_a_wheel_has_the_core_and_runs_without_a_compiler(tree: Path, tmp_path: Path) -> None:
    wheel, said = built_wheel(tree, tmp_path / "wheel", PURGATORY_ASYNC_PURE="0")
    assert LEFT_OUT not in said
    assert not wheel.name.endswith("-none-any.whl")
    assert used(wheel, tmp_path) == "True done\n"
    native = tmp_path / "site" / PACKAGE / "native"
    assert not [path for path in native.iterdir() if path.suffix in {".pyx", ".pxi", ".c"}]


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"PURGATORY_ASYNC_PURE": "1"}, "PURGATORY_ASYNC_PURE=1"),
        ({"CC": "/absent/cc"}, "/absent/cc"),
        ({"PATH": "/absent"}, "No such file"),
    ],
    ids=["on request", "another compiler", "no compiler"],
)
def test_a_wheel_without_the_core_says_so_in_one_line(
    tree: Path, tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    wheel, said = built_wheel(tree, tmp_path / "wheel", **variables)
    [line] = [line for line in said.splitlines() if LEFT_OUT in line]
    assert reason in line
    assert wheel.name.endswith("-py3-none-any.whl")
    assert used(wheel, tmp_path) == "False done\n"


def test_a_build_that_must_have_the_core_fails_without_it(tree: Path, tmp_path: Path) -> None:
    variables = {"PURGATORY_ASYNC_PURE": "0", "CC": "/absent/cc"}
    made = run("-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=tree, **variables)
    assert made.returncode != 0
    assert "/absent/cc" in made.stderr


EDITABLE = "from hatchling.build import build_editable; build_editable({folder!r})"


@needs_compiled_core
def test_an_editable_install_builds_beside_the_sources(tree: Path, tmp_path: Path) -> None:
    editable = ("-c", EDITABLE.format(folder=str(tmp_path)))
    assert run(*editable, folder=tree).returncode == 0
    assert run("-c", USE, folder=tree).stdout == "True done\n"
    # An extension of these sources needs no compiler; one that is not wanted is removed.
    assert LEFT_OUT not in run(*editable, folder=tree, CC="/absent/cc").stderr
    assert LEFT_OUT in run(*editable, folder=tree, PURGATORY_ASYNC_PURE="1").stderr
    assert run("-c", USE, folder=tree).stdout == "False done\n"


@needs_compiled_core
def test_the_build_script_builds_once(tree: Path) -> None:
    script = tree / PACKAGE / "native" / "build.py"
    paths = [Path(run(script, folder=tree).stdout.strip()) for _ in range(2)]
    made = [path.stat().st_mtime_ns for path in paths]
    assert made[0] == made[1]
    with (script.parent / "wait.pxi").open("a", encoding="utf-8") as source:
        source.write("# another\n")
    assert "built from other sources" in run("-c", USE, folder=tree).stderr
    assert run(script, folder=tree).returncode == 0
    assert run("-c", USE, folder=tree).stdout == "True done\n"
    assert list(script.parent.glob("build-*")) == []


def test_the_build_script_says_in_one_line_what_is_missing(tree: Path) -> None:
    path = next(iter((tree / PACKAGE / "native").glob("_core.*.so")), None)
    if path is not None:
        path.unlink()
    found = run(tree / PACKAGE / "native" / "build.py", folder=tree, CC="/absent/cc")
    assert found.returncode == 1
    assert found.stderr.startswith("cannot build the compiled core: ")
    assert found.stderr.count("\n") == 1
