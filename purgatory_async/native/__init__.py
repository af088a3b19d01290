"""Chooses between the reference, in Python, and the compiled core of the same names.

A class with a compiled twin is marked `also_compiled`. Where the extension was built the mark puts the twin in its
place, so that every module, also a subclass in Python, uses it. ``PURGATORY_ASYNC_PURE=1`` keeps the reference.
"""

import os
from types import ModuleType
from typing import TypeVar

__all__ = ["also_compiled", "compiled"]

C = TypeVar("C", bound=type)

core: ModuleType | None = None
if not int(os.environ.get("PURGATORY_ASYNC_PURE") or 0):
    try:
        from purgatory_async.native import _core as core  # type: ignore[attr-defined,no-redef]
    except ImportError:
        pass

compiled: bool = core is not None
"""Whether the compiled core runs."""


def also_compiled(reference: C) -> C:
    """Mark a class of which the compiled core has a twin; returns the one that runs.

    The twin takes over the docstrings and the name of the reference's module.
    """
    if core is None:
        return reference
    twin: C = getattr(core, reference.__name__)
    core.take_over(twin, reference)
    return twin
