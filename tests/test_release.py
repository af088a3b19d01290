"""What a release consists of: its version, its workflows, its addresses, and what the pages promise about both."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from runpy import run_path

import pytest

import purgatory_async
from purgatory_async.service.contract.version import VERSION
from tests.source_tree import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_version_stands_in_one_place() -> None:
    assert SETTINGS["project"]["dynamic"] == ["version"]
    assert SETTINGS["tool"]["hatch"]["version"]["path"] == "purgatory_async/__init__.py"
    assert f'\n__version__ = "{VERSION}"' in read("purgatory_async/__init__.py")
    assert purgatory_async.__version__ == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def steps(workflow: Path) -> list[dict[str, object]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_what_it_runs(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert not [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)]
    installed = re.findall(r"pip install (.*)", text)
    assert not [
        names for names in installed if not re.fullmatch(r"[\w-]+==[\d.]+|-q -e \"\.\[[\w,]+\]\"", names)
    ]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_starts_without_permissions(workflow: Path) -> None:
    read = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert read["permissions"] == {}
    allowed = {name: job["permissions"] for name, job in read["jobs"].items()}
    writing = {
        (workflow.stem, name, right)
        for name, rights in allowed.items()
        for right in rights
        if rights[right] == "write"
    }
    assert writing <= {
        ("image", "publish", "packages"),
        ("site", "publish", "id-token"),
        ("site", "publish", "pages"),
        ("wheels", "materials", "attestations"),
        ("wheels", "materials", "id-token"),
        ("wheels", "publish", "id-token"),
        ("wheels", "release", "contents"),
    }
    for job in read["jobs"].values():
        assert job["timeout-minutes"] <= 90


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_no_step_runs_text_that_a_branch_or_tag_names(workflow: Path) -> None:
    assert not [step for step in steps(workflow) if "${{" in str(step.get("run", ""))]
    checkouts = [step for step in steps(workflow) if "actions/checkout@" in str(step.get("uses"))]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_only_a_tag_publishes() -> None:
    for name in ("wheels", "image", "site"):
        jobs = yaml.safe_load(read(f".github/workflows/{name}.yml"))["jobs"]
        assert jobs["publish"]["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    wheels = yaml.safe_load(read(".github/workflows/wheels.yml"))["jobs"]
    assert wheels["publish"]["environment"] == "pypi"
    assert set(wheels["publish"]["needs"]) == {"source", "compiled", "materials"}
    assert wheels["release"]["needs"] == "publish"


def test_the_files_that_a_workflow_runs_exist() -> None:
    for workflow in WORKFLOWS:
        for name in re.findall(r"(?<![\w*'/])(\.ci/[\w-]+)", workflow.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), name


def name_repository(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for name in ("README.md", "pyproject.toml"):
        (folder / name).write_text(read(name), encoding="utf-8")
    command = [sys.executable, ROOT / ".ci/name-repository", *arguments]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def relative_links(page: str) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    return [link for link in re.findall(r"\]\(([^)]+)\)", text) if not re.match(r"https?:|#", link)]


def test_a_release_shows_whole_links_and_addresses(tmp_path: Path) -> None:
    base = "https://example.org/owner/name"
    assert name_repository(tmp_path, base, "0a1b2c").returncode == 0
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    links = relative_links(read("README.md"))
    assert len(links) > 20
    assert relative_links(page) == []
    assert all(f"]({base}/blob/0a1b2c/{link})" in page for link in links)
    assert re.findall(r"\]\(#[\w-]+\)", page) == re.findall(r"\]\(#[\w-]+\)", read("README.md"))
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {**project, "urls": None} == {**SETTINGS["project"], "urls": None}
    assert project["urls"]["Source"] == base
    for address in project["urls"].values():
        path = address.removeprefix(base).removeprefix("/blob/0a1b2c/")
        assert path in {"", "/issues"} or (ROOT / path).exists(), address


def test_the_source_names_no_address_of_its_own() -> None:
    assert "urls" not in SETTINGS["project"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("example.org/owner/name", "0a1b"),
            "repository must be https://HOST/OWNER/NAME, got 'example.org/owner/name'",
        ),
        (("https://example.org/owner/name", "a b"), "commit must be a hash or a tag, got 'a b'"),
        ((), "usage: "),
    ],
    ids=["no scheme", "no commit", "nothing"],
)
def test_an_address_that_is_none_changes_nothing(tmp_path: Path, arguments, complaint: str) -> None:
    ended = name_repository(tmp_path, *arguments)
    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == read("README.md")


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table in SUPPORT.md, without its head."""
    section = read(".github/SUPPORT.md").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_support_table_has_the_declared_pythons() -> None:
    prefix = "Programming Language :: Python :: 3."
    classified = [name for name in SETTINGS["project"]["classifiers"] if name.startswith(prefix)]
    supported = [row[0] for row in rows("Python")]
    assert [f"Programming Language :: Python :: {version}" for version in supported] == classified
    assert SETTINGS["project"]["requires-python"] == f">={supported[0]}"
    built = [f"cp{version.replace('.', '')}-*" for version in supported]
    assert SETTINGS["tool"]["cibuildwheel"]["build"] == built
    # CPython's releases are each October, and end five years later (PEP 602).
    assert [row[3] for row in rows("Python")] == [
        f"October {2016 + int(version.partition('.')[2])}" for version in supported
    ]


def test_each_python_that_a_check_tests_has_its_lanes() -> None:
    lanes = set(re.findall(r"^step_([\w-]+)\(", read(".ci/check"), re.MULTILINE))
    for version, _, tested, _ in rows("Python"):
        minor = version.replace(".", "")
        assert ("in every check" in tested) == (version == "3.11" or {f"py{minor}", f"pure{minor}"} <= lanes)


def test_the_support_table_has_the_declared_lower_bounds() -> None:
    bounds = " ".join(
        line for extra in SETTINGS["project"]["optional-dependencies"].values() for line in extra
    )
    client = {row[0]: row[2] for row in rows("Engines and clients")}
    for name in ("Postgres", "Redis", "Apache Spark"):
        package, version = client[name].split()
        assert re.search(rf"\b{package}(\[\w+\])?>={re.escape(version)}( |$)", bounds), name


def test_each_system_of_the_support_table_has_a_runner() -> None:
    runners = yaml.safe_load(read(".github/workflows/wheels.yml"))["jobs"]["compiled"]["strategy"]["matrix"][
        "os"
    ]
    named = {"Linux": "ubuntu", "macOS": "macos", "Windows": "windows"}
    systems = {row[0].partition(",")[0] for row in rows("Systems")}
    assert systems == set(named)
    assert {runner.partition("-")[0] for runner in runners} == set(named.values())
    assert any(runner.endswith("-arm") for runner in runners)


def test_no_name_is_deprecated_today() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "purgatory_async").rglob("*.py"))
    assert "DeprecationWarning" not in sources
    assert "Nothing is\ndeprecated today" in read(".github/SUPPORT.md")


def test_the_pages_for_people_link_to_what_exists() -> None:
    for name in ("SUPPORT", "CODE_OF_CONDUCT", "SECURITY"):
        for link in relative_links(read(f".github/{name}.md")):
            assert (ROOT / ".github" / link.partition("#")[0]).exists(), link


def test_the_description_is_short_enough_to_be_shown() -> None:
    assert len(SETTINGS["project"]["description"]) <= 130
    assert "purgatory" not in SETTINGS["project"]["description"].lower()


def test_a_free_threaded_interpreter_gets_the_pure_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURGATORY_ASYNC_PURE", raising=False)
    build = run_path(str(ROOT / "purgatory_async/native/build.py"))
    known = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or known(name))
    assert build["why_pure"]() == "this interpreter is free-threaded"
    # Were the core built there all the same, it would declare that it uses the GIL.
    assert "freethreading_compatible" not in read("purgatory_async/native/_core.pyx")
    assert "so that an import never turns the GIL back on" in " ".join(read(".github/SUPPORT.md").split())
