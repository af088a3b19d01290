"""Everything that the README and examples/ show is run as it stands there."""

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

START = (
    "python3 -m venv .venv"
    ' && .venv/bin/pip install -q -e ".[service,dev]"'
    " && .venv/bin/purgatory demo --detach\n"
)
CHECK = ".ci/check\n"

# Nothing that a reader pastes may take longer than this.
PATIENCE_S = 60


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line where its fence opens."""

    language: str
    text: str
    line: int


def fenced_blocks(markdown: str) -> list[Block]:
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", markdown, flags=re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], markdown.count("\n", 0, match.start()) + 1) for match in fences]


PYTHON = [
    pytest.param(block.text, id=f"README.md:{block.line}")
    for block in fenced_blocks(README)
    if block.language == "python"
]
EXAMPLES = [pytest.param(path, id=path.name) for path in sorted((ROOT / "examples").glob("*.py"))]


def skip_without_its_imports(code: str) -> None:
    """Skip where something that the code imports is not installed (the library needs little)."""
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in (name.partition(".")[0] for name in names):
            if find_spec(name) is None:
                pytest.skip(f"{name} is not installed")


def run(*arguments: str | Path, folder: Path) -> None:
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert finished.returncode == 0, finished.stdout


def test_the_first_shell_block_starts_the_demo_and_the_second_runs_every_check() -> None:
    shell = [block.text for block in fenced_blocks(README) if block.language == "sh"]
    assert shell[:2] == [START, CHECK]


def test_the_readme_shows_the_four_ways_in() -> None:
    text = "\n".join(block.text for block in fenced_blocks(README) if block.language == "python")
    assert len(PYTHON) >= 4
    for shown in (".wait(", "DelayedOperation", "starlette", "def test_"):
        assert shown in text


@pytest.mark.parametrize("code", PYTHON)
def test_a_python_block_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    skip_without_its_imports(code)
    if "def test_" not in code:
        run("-c", code, folder=tmp_path)
        return
    test = tmp_path / "test_block.py"
    test.write_text(code, encoding="utf-8")
    # Where the package is installed, pytest has found the plugin by itself.
    installed = entry_points(group="pytest11", name="purgatory_async")
    plugin = () if installed else ("-p", "purgatory_async.testing.plugin")
    settings = (
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    run("-m", "pytest", "-q", *settings, *plugin, test, folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_to_its_end(example: Path, tmp_path: Path) -> None:
    skip_without_its_imports(example.read_text(encoding="utf-8"))
    run(example, folder=tmp_path)


def test_the_fences_are_read_with_their_language_and_line() -> None:
    assert fenced_blocks("a\n```sh\nls\n```\n```\nplain\n```\n") == [
        Block("sh", "ls\n", 2),
        Block("", "plain\n", 5),
    ]
