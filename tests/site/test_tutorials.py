"""Each tutorial, pasted from top to bottom into one terminal, prints what it shows."""

import re

import pytest

from tests.pages import Pasted, Saved, links, steps
from tests.source_tree import ROOT
from tests.terminal import prints, reading

TUTORIALS = ROOT / ".github" / "site" / "tutorials"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(TUTORIALS.glob("*.md"))}
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


@pytest.mark.slow
def test_the_wait_in_an_app_word_for_word(tmp_path):
    with reading(PAGES["wait_in_an_app.md"], tmp_path) as reader:
        reader.does_all()


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
