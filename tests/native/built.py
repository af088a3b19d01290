"""Whether the extension is built here, which the tests of both builds need."""

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.source_tree import ROOT

__all__ = ["environment_of", "needs_compiled_core"]


def environment_of(*, pure: bool) -> dict[str, str]:
    """The environment of a process that uses one of the two builds."""
    return {**os.environ, "PURGATORY_ASYNC_PURE": "1" if pure else "0"}


@cache
def is_built() -> bool:
    """Whether a process without the switch runs the compiled core."""
    script = "import purgatory_async; print(purgatory_async.compiled)"
    shown = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment_of(pure=False),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return shown.stdout == "True\n"


# In CI a test that compares two builds must not pass because there is only one.
needs_compiled_core = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not is_built(),
    reason="the compiled core is not built: run python purgatory_async/native/build.py",
)
