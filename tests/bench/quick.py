"""A benchmark run as its users run it, with small numbers."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.source_tree import ROOT


def run_quick(
    module: str, sections: Iterable[str], folder: Path, *options: str, patience_s: float = 300
) -> tuple[str, list[dict[str, Any]]]:
    """Run ``python -m MODULE --quick``; it exits with 0, and prints and writes every section.

    Returns:
        What it printed, and the lines that it wrote.
    """
    written = folder / "figures.json"
    finished = subprocess.run(
        [sys.executable, "-m", module, "--quick", *options, "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert [name for name in sections if f"\n== {name}: " not in finished.stdout] == []
    lines = json.loads(written.read_text(encoding="utf-8"))["lines"]
    assert {line["section"] for line in lines} == set(sections)
    return finished.stdout, lines
