"""Every code block of every README runs as printed, and every link leads to a file."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import tools
from tests.layers import LAYERS
from tests.pages import Block, fenced_blocks, links
from tests.programs import run, skip_without_its_imports
from tests.source_tree import PACKAGE, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = (
    "bench",
    "examples",
    "examples/agents",
    "examples/deploy",
    "purgatory_async/client",
    "purgatory_async/cluster",
    "purgatory_async/durable",
    "purgatory_async/kafka",
    "purgatory_async/otel",
    "purgatory_async/patterns",
    "purgatory_async/pipeline",
    "purgatory_async/service",
    "purgatory_async/testing",
    "tests",
)
TABLES = "purgatory_async/pipeline/TABLES.md"
ASKING = "purgatory_async/service/ASK_A_PERSON.md"
AGENTS = "examples/agents/README.md"
PAGES = {"README.md": README} | {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (
        "purgatory_async/ARCHITECTURE.md",
        TABLES,
        ASKING,
        *(f"{folder}/README.md" for folder in FOLDERS),
    )
}

START = (
    "python3 -m venv .venv"
    ' && .venv/bin/pip install -q -e ".[service,dev]"'
    " && .venv/bin/purgatory demo --detach\n"
)
CHECK = ".ci/check\n"


UNIT = next(
    block.text
    for block in fenced_blocks(PAGES["purgatory_async/service/README.md"])
    if block.language == "ini"
)
PYTHON = [
    # Those that talk to a Kafka broker import two clients' libraries and Hypothesis: seconds each.
    pytest.param(
        block.text, id=f"{page}:{block.line}", marks=[pytest.mark.slow] if "kafka" in block.text else []
    )
    for page, text in PAGES.items()
    if page
    not in {
        TABLES,
        ASKING,
        AGENTS,
    }  # tests/pipeline, test_ask_page and tests/agents run them, with what they need
    for block in fenced_blocks(text)
    if block.language == "python"
]


def test_the_first_block_starts_the_demo_the_second_checks() -> None:
    shell = [block.text for block in fenced_blocks(README) if block.language == "sh"]
    assert shell[:2] == [START, CHECK]


def test_the_readme_begins_with_needs_and_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 200
    wait, *_ = fenced_blocks(README)
    assert (".wait(" in wait.text, wait.line < 20) == (True, True)
    rows = [line for line in lines[: wait.line] if line.startswith("| ")]
    assert rows[0] == "| I want to | use | page |"
    assert len(rows) >= 6


def test_the_pages_show_each_way_in() -> None:
    for page, ways in {
        "README.md": (".wait(", "starlette_poll", "def test_"),
        "purgatory_async/patterns/README.md": ("DelayedOperation", "purgatory.run("),
        "purgatory_async/cluster/README.md": ("Cluster(",),
    }.items():
        shown = "\n".join(block.text for block in fenced_blocks(PAGES[page]) if block.language == "python")
        assert [way for way in ways if way not in shown] == []


def test_every_page_of_a_folder_is_among_those_tested() -> None:
    found = [
        path
        for top in ("bench", "examples", "purgatory_async", "tests")
        for path in (ROOT / top).rglob("*.md")
    ]
    assert {path.relative_to(ROOT).as_posix() for path in found} == PAGES.keys() - {"README.md"}


def test_the_readme_links_to_every_other_page() -> None:
    assert PAGES.keys() - {"README.md"} <= set(links(README))


def test_the_readme_shows_no_image() -> None:
    # A package index renders it alone: a relative image would be broken there.
    assert "![" not in README


@pytest.mark.parametrize("page", PAGES)
def test_a_link_of_a_page_leads_to_a_file(page: str) -> None:
    local = [link.partition("#")[0] for link in links(PAGES[page]) if "://" not in link]
    broken = [link for link in local if not ((ROOT / page).parent / link).exists()]
    if not (ROOT / "bench/proposal/published").exists():  # the source archive has no pictures
        broken = [link for link in broken if not link.startswith(("proposal/published/", "dashboard.png"))]
    assert not broken


@pytest.mark.parametrize("code", PYTHON)
def test_a_python_block_of_a_readme_runs(code: str, tmp_path: Path) -> None:
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
        "-p",
        "no:schemathesis",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    run("-m", "pytest", "-q", *settings, test, folder=tmp_path)


def test_the_unit_has_each_comment_on_its_own_line() -> None:
    # After a value, systemd would read it as part of the value.
    assert not [line for line in UNIT.splitlines() if "#" in line[1:]]


def test_the_unit_hands_the_tokens_over_as_a_credential() -> None:
    settings = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line)
    assert settings["DynamicUser"] == "yes"  # cannot read a file that only its owner may read
    assert settings["LoadCredential"] == "tokens:/etc/purgatory/tokens"
    assert " --tokens %d/tokens " in settings["ExecStart"]


@pytest.mark.slow
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "purgatory.service"
    # Only the program differs from the page: it must exist here.
    unit.write_text(re.sub(r"/\S+/purgatory(?= serve)", sys.executable, UNIT), encoding="utf-8")
    assert tools.run(tools.program_or_skip("systemd-analyze", "systemd"), "verify", unit) == ""


POLLS = {
    "README.md": next(block.text for block in fenced_blocks(README) if "starlette_poll" in block.text),
    "long_poll_starlette.py": (ROOT / "examples" / "long_poll_starlette.py").read_text(encoding="utf-8"),
}


@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.parametrize("code", POLLS.values(), ids=POLLS)
@pytest.mark.parametrize("report", [{"status": "green"}, False], ids=["an object", "a false value"])
async def test_a_long_poll_answers_what_came_before_it(code: str, report: object) -> None:
    skip_without_its_imports(code)
    httpx2 = pytest.importorskip("httpx2")
    names: dict[str, Any] = {"__name__": "shown"}
    exec(code, names)
    transport = httpx2.ASGITransport(names["app"])
    async with httpx2.AsyncClient(transport=transport, base_url="http://builds") as client:
        assert (await client.get("/builds/7?wait=0")).status_code == 204
        assert (await client.post("/builds/7", json=report)).json() == {"woken": 0}
        answer = await client.get("/builds/7?wait=0")
    assert answer.status_code == 200
    assert answer.json() == {"build": "7", "report": report}
    names["builds"].close()


def test_the_architecture_names_only_files_that_exist() -> None:
    text = PAGES["purgatory_async/ARCHITECTURE.md"]
    named = re.findall(r"`([a-z_]+/[\w/]*(?:\.py)?)`", text)
    missing = [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / PACKAGE))]
    assert named
    assert not missing


def test_the_architecture_names_every_layer_in_order() -> None:
    section = PAGES["purgatory_async/ARCHITECTURE.md"].partition("\n## ")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z, ]+) \| `", section, flags=re.MULTILINE)
    assert ", ".join(rows).split(", ") == list(LAYERS)


def test_links_are_read_outside_code_blocks() -> None:
    assert links("[a](b.md) ![c](d.svg)\n```python\nx[0](y)\n```\n") == ["b.md", "d.svg"]


def test_the_fences_are_read_with_their_language_and_line() -> None:
    assert fenced_blocks("a\n```sh\nls\n```\n```\nplain\n```\n- b\n\n  ```ini\n  [A]\n  ```\n") == [
        Block("sh", "ls\n", 2),
        Block("", "plain\n", 5),
        Block("ini", "[A]\n", 10),
    ]
