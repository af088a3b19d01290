"""Programs that check the kit: found, or a reason to skip."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT

KIT = ROOT / "examples" / "deploy"
PATIENCE_S = 60


def program_or_skip(name: str, package: str) -> str:
    """Find a program, or skip; in CI its absence is a failure."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        skip = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        skip(f"{name} is not installed: apt-get install {package}")
    return found


def tool_or_skip(path: str) -> str:
    """Find what `.ci/deploy-tools` has installed, or skip; in CI its absence is a failure."""
    found = Path(os.environ.get("DEPLOY_TOOLS", ""), path)
    if not found.is_file():
        skip = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        skip(f"{path} is not installed: export DEPLOY_TOOLS=$(.ci/deploy-tools)")
    return str(found)


def run(*command: str | Path) -> str:
    """Run a program that must exit with 0; returns what it printed."""
    ended = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def replaced(text: str, old: str, new: str) -> str:
    """A text with one part replaced, which must be there once."""
    assert text.count(old) == 1, f"{old!r} is not in it once:\n{text}"
    return text.replace(old, new)
