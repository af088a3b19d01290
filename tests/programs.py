"""Programs that a reader would start, started as a reader would: the README's blocks, the examples."""

import ast
import os
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.source_tree import ROOT

# Nothing that a reader starts may take longer than this.
PATIENCE_S = 300


# What our own modules need beyond the library.
NEEDS = {
    "purgatory_async.client": "httpx2",
    "purgatory_async.cluster": "msgspec",
    "purgatory_async.durable": "msgspec",
    "purgatory_async.journal": "msgspec",
    "purgatory_async.kafka": "kio",
    "purgatory_async.kafka.testing": "kio",
    "opentelemetry.sdk.trace": "opentelemetry.sdk",  # not with the API, which stands before it
    "purgatory_async.otel": "opentelemetry",
}


def skip_without_its_imports(code: str) -> None:
    """Skip where something that the code imports is not installed (the library needs little)."""
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        needed = [NEEDS.get(name, name.partition(".")[0]) for name in names]
        for name in needed:
            beside = (ROOT / "examples" / f"{name}.py").is_file()
            if not beside and find_spec(name) is None:
                pytest.skip(f"{name} is not installed")


def run(*arguments: str | Path, folder: Path) -> str:
    """Run Python with these arguments, where a warning is an error; returns what it printed.

    Raises:
        AssertionError: It did not exit with 0, or something went wrong where Python cannot raise.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"} | plugin()
    finished = finish([sys.executable, *arguments], folder, environment)
    assert finished.returncode == 0, finished.stdout
    for sign in ("Traceback", "Exception ignored", "never retrieved"):
        assert sign not in finished.stdout, finished.stdout
    return finished.stdout


def plugin() -> dict[str, str]:
    """The variable by which pytest finds our plugin where the package is not installed."""
    installed = entry_points(group="pytest11", name="purgatory_async")
    return {} if installed else {"PYTEST_PLUGINS": "purgatory_async.testing.plugin"}


def finish(
    command: list[str | Path], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its errors among its output."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
