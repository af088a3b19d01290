"""Each tutorial, pasted from top to bottom into one terminal, prints what it shows."""

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.tools import program_or_skip
from tests.pages import Pasted, Saved, links, steps
from tests.source_tree import ROOT
from tests.terminal import prints, reading

TUTORIALS = ROOT / ".github" / "site" / "tutorials"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(TUTORIALS.glob("*.md"))}
IMPORTS = {"kafka_test.md": ("kio", "aiokafka"), "long_poll.md": ("msgspec", "fastapi", "uvicorn")}
INSTALL = re.compile(
    r"python3 -m venv \.venv && \. \.venv/bin/activate && pip install -q [\w \".\[\],-]+\n", flags=re.DOTALL
)


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_begins_with_the_install_and_ends_with_links(page: str) -> None:
    text = PAGES[page]
    install, *rest = steps(text)
    assert isinstance(install, Pasted)
    assert INSTALL.fullmatch(install.text)
    assert all(step.printed or "&\n" in step.text for step in rest if isinstance(step, Pasted))
    *_, last = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert last == "What you have"
    assert "\nWhere next:\n" in text.rpartition("## What you have")[2]


@pytest.mark.parametrize("page", PAGES)
def test_a_link_of_a_tutorial_leads_to_a_file(page: str) -> None:
    local = [link.partition("#")[0] for link in links(PAGES[page]) if "://" not in link]
    assert [link for link in local if not (TUTORIALS / link).exists()] == []


def test_the_steps_of_a_page_are_its_files_and_its_commands() -> None:
    page = "Save it as `a.py`:\n```python\nx\n```\n\n```sh\nls\n```\nIt prints\n```text\na.py\n```\n```sh\nb &\n```\n"
    assert steps(page) == [Saved("a.py", "x\n"), Pasted("ls\n", "a.py\n", 6), Pasted("b &\n", None, 13)]
    for lost in (
        "```python\nx\n```\n",
        "```text\nx\n```\n",
        "Save it as `a` and save it as `b`:\n```ini\nx\n```\n",
    ):
        with pytest.raises(AssertionError, match="line "):
            steps(lost)


def test_dots_on_a_page_stand_for_anything() -> None:
    assert prints("a ... b\n", "a 1 2 b\n")
    assert not prints("a ... b\n", "a 1\n")
    assert not prints("a\n", "a\nb\n")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_runs_word_for_word(page, tmp_path):
    for module in IMPORTS.get(page, ()):
        pytest.importorskip(module)
    if page == "long_poll.md":
        program_or_skip("nginx", "nginx-light")
    with reading(PAGES[page], tmp_path) as reader:
        reader.does_all()


@pytest.fixture
def two_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The names of the long poll's app, as two of its workers have them."""
    saved = {step.name: step.text for step in steps(PAGES["long_poll.md"]) if isinstance(step, Saved)}
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")
    (tmp_path / "jobs.py").write_text(saved["jobs.py"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    workers: list[dict[str, Any]] = [{"__name__": "shown"} for _ in range(2)]
    for names in workers:
        exec(saved["app.py"], names)
    workers[0]["jobs"].run("CREATE TABLE jobs (id text PRIMARY KEY, result text)")
    yield workers
    del sys.modules["jobs"]


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_poll_hears_a_report_between_looking_and_waiting(two_workers: list[dict[str, Any]]) -> None:
    httpx2 = pytest.importorskip("httpx2")
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                httpx2.AsyncClient(transport=httpx2.ASGITransport(names["app"]), base_url="http://jobs")
            )
            for names in two_workers
        ]
        for names in two_workers:
            await stack.enter_async_context(names["lifespan"](names["app"]))
        names = two_workers[0]
        assert (await here.put("/jobs/7")).status_code == 200
        assert (await here.get("/jobs/7?wait=0")).status_code == 204
        looked = asyncio.Event()
        look = names["look"]

        async def look_slowly(job: str) -> object:
            """Look, and go on only when the report was made, and applied here, meanwhile."""
            found = await look(job)
            if not looked.is_set():
                looked.set()
                await asyncio.to_thread(names["jobs"].report, job, "green")
                await names["cluster"].signal("another")  # the report comes before it
            return found

        names["look"] = look_slowly
        answer = await here.get("/jobs/7?wait=20s")
        assert (answer.status_code, answer.json()) == (200, "green")
        assert (await there.get("/jobs/7")).json() == "green", "also what came before it"
