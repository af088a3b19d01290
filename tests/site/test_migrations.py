"""Each page that leads from elsewhere to here: its test fails on the program before, as it says, and passes after."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.cluster.servers import RedisServer, need_redis, shared
from tests.programs import PATIENCE_S, run
from tests.site.migrations import FOLDER, MIGRATIONS, SECTIONS
from tests.source_tree import ROOT
from tests.test_readme import links

PAGES = MIGRATIONS.values()


def ran(page, title, folder, **environment):
    """Run a page's test on a section's program; returns the exit code, the lines that name failures, and the output."""
    page.write(title, folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **environment}
    environment.pop("CI", None)  # with it pytest adds lines to its summary
    if not entry_points(group="pytest11", name="purgatory_async"):
        environment["PYTEST_PLUGINS"] = "purgatory_async.testing.plugin"
    plain = ("-q", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-p", "no:schemathesis")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=folder,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    lines = finished.stdout.splitlines()
    failures = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return finished.returncode, failures, finished.stdout


def moves(page, tmp_path, **environment):
    """The page's test fails on the program before, with the page's words, and passes on the one after."""
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
    code, failures, output = ran(page, "Before", tmp_path / "before", **environment)
    assert (code, failures) == (1, page.failures), output
    code, failures, output = ran(page, "After", tmp_path / "after", **environment)
    assert (code, failures) == (0, []), output


@pytest.mark.parametrize("page", PAGES, ids=MIGRATIONS)
def test_a_page_has_before_a_failing_test_and_after(page):
    assert [title for title in SECTIONS if not page.section(title).strip()] == []
    assert page.files("Before").keys() == page.files("After").keys()
    assert page.failures
    defined = "\n".join(page.files("The test").values())
    named = {failure.partition("::")[2].partition(" ")[0] for failure in page.failures}
    assert [name for name in named if f"def {name}(" not in defined] == []
    assert "\n| before | after" in page.section("Call by call")
    assert "\n1. " in page.section("Step by step")


@pytest.mark.parametrize("page", PAGES, ids=MIGRATIONS)
def test_a_link_of_a_page_from_elsewhere_leads_to_a_file(page):
    local = [link.partition("#")[0] for link in links(page.text) if "://" not in link]
    assert [link for link in local if link and not (FOLDER / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asyncio_queue", "wait_for_and_a_dict"])
def test_a_program_in_one_process_moves(name, tmp_path):
    moves(MIGRATIONS[name], tmp_path)


@pytest.mark.slow
def test_a_program_on_redis_moves(tmp_path):
    need_redis()
    moves(MIGRATIONS["redis_blpop"], tmp_path, REDIS=shared(RedisServer).url)


@pytest.mark.slow
def test_a_job_outlives_its_process(tmp_path):
    pytest.importorskip("msgspec")
    ((name, code),) = MIGRATIONS["asyncio_queue"].files("Jobs that outlive the process").items()
    (tmp_path / name).write_text(code, encoding="utf-8")
    assert run(name, folder=tmp_path) == "resize cat.png 1\n"
