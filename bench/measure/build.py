"""The library's two builds: a process has one of them, by its environment."""

import os

from purgatory_async import compiled

__all__ = ["BUILDS", "environment"]

BUILDS = (False, True) if compiled else (True,)
"""Whether each is pure Python: where the compiled core was built, a run measures both."""


def environment(*, pure: bool) -> dict[str, str]:
    """Return this process's environment, but for one with that build."""
    return {**os.environ, "PURGATORY_ASYNC_PURE": "1" if pure else "0"}
