"""Each page that leads from elsewhere to here: its test fails on the program before, as it says, and passes after."""

import os
import sys
from contextlib import closing

import pytest

from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.programs import finish, plugin, run
from tests.site.migrations import FOLDER, MIGRATIONS, SECTIONS
from tests.source_tree import ROOT
from tests.test_readme import links

PAGES = MIGRATIONS.values()
FORMER_LIBRARIES = ROOT / "tests" / "site" / "doubles"


def ran(page, title, folder, python=sys.executable, **environment):
    """Run a page's test on a section's program; returns the exit code, the lines that name failures, and the output.

    Args:
        page: The page.
        title: The section.
        folder: Where both are saved, and the working directory.
        python: The interpreter. Another one than our own has its pytest, and nothing of this package.
        environment: More variables.
    """
    page.write(title, folder)
    environment = {**os.environ, "COLUMNS": "200", **environment}
    environment.pop("CI", None)  # with it pytest adds lines to its summary
    options = ["-q", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider"]
    if python == sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        options += ["-p", "no:schemathesis", "-o", "asyncio_default_fixture_loop_scope=function"]
        environment |= plugin()
    finished = finish([python, "-m", "pytest", *options], folder, environment)
    lines = finished.stdout.splitlines()
    failures = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return finished.returncode, failures, finished.stdout


def moves(page, tmp_path, former=sys.executable, **environment):
    """The page's test fails on the program before, with the page's words, and passes on the one after.

    Args:
        page: The page.
        tmp_path: An empty folder.
        former: The interpreter for the program before.
        environment: More variables for both.
    """
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
    code, failures, output = ran(page, "Before", tmp_path / "before", former, **environment)
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
def test_a_program_on_celery_moves(tmp_path):
    need_redis()
    former = os.environ.get("CELERY_PYTHON")
    if former is None:
        pytest.skip("CELERY_PYTHON names no interpreter with celery[redis] and pytest; .ci/check makes one")
    moves(MIGRATIONS["celery_eta"], tmp_path, former, REDIS=shared(RedisServer).url)


@pytest.mark.slow
def test_a_program_with_a_polled_table_moves(tmp_path):
    need_postgres()
    with closing(Postgres()) as postgres:
        postgres.start()
        moves(MIGRATIONS["polling_table"], tmp_path, DATABASE=postgres.url)


@pytest.mark.slow
def test_a_suite_on_a_kafka_container_moves(tmp_path):
    pytest.importorskip("kio")
    pytest.importorskip("confluent_kafka")
    page = MIGRATIONS["testcontainers_kafka"]
    moves(page, tmp_path, PYTHONPATH=str(FORMER_LIBRARIES))
    page.write("What a container cannot do", tmp_path / "after")
    code, failures, output = ran(page, "After", tmp_path / "after")
    assert (code, failures) == (0, []), output
    assert "3 passed" in output


@pytest.mark.slow
def test_a_job_outlives_its_process(tmp_path):
    pytest.importorskip("msgspec")
    ((name, code),) = MIGRATIONS["asyncio_queue"].files("Jobs that outlive the process").items()
    (tmp_path / name).write_text(code, encoding="utf-8")
    assert run(name, folder=tmp_path) == "resize cat.png 1\n"
