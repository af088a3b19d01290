"""Whatever is called and set, the compiled core raises; it never ends the interpreter."""

import subprocess
import sys

import pytest

from tests.native.built import environment_of, needs_compiled_core
from tests.source_tree import ROOT


def end_of(seed: int, steps: int) -> tuple[int, str]:
    """How a process of random misuse ended, and the last that it wrote."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.native.misuse", str(seed), str(steps)],
        cwd=ROOT,
        env=environment_of(pure=False) | {"PYTHONHASHSEED": "0"},
        check=False,
        capture_output=True,
        text=True,
    )
    return found.returncode, (found.stdout + found.stderr)[-3_000:]


@needs_compiled_core
def test_misuse_raises_and_never_crashes() -> None:
    code, written = end_of(seed=1, steps=3_000)
    assert code == 0, written


@needs_compiled_core
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_misuse_never_crashes_in_a_tenth_of_a_million(seed: int) -> None:
    code, written = end_of(seed, steps=10_000)
    assert code == 0, written
