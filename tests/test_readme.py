"""Everything that the README shows is run as it stands there."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.programs import run, skip_without_its_imports
from tests.source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")

START = (
    "python3 -m venv .venv"
    ' && .venv/bin/pip install -q -e ".[service,dev]"'
    " && .venv/bin/purgatory demo --detach\n"
)
CHECK = ".ci/check\n"


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


def test_the_first_block_starts_the_demo_the_second_checks() -> None:
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
    settings = (
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    run("-m", "pytest", "-q", *settings, test, folder=tmp_path)


def test_the_fences_are_read_with_their_language_and_line() -> None:
    assert fenced_blocks("a\n```sh\nls\n```\n```\nplain\n```\n") == [
        Block("sh", "ls\n", 2),
        Block("", "plain\n", 5),
    ]
