"""Chooses between the reference, in Python, and the compiled core of the same names.

A class with a compiled twin is marked `also_compiled`. Where the extension was built the mark puts the twin in its
place, so that every module, also a subclass in Python, uses it. ``PURGATORY_ASYNC_PURE=1`` keeps the reference.
"""

import warnings
from types import ModuleType
from typing import TypeVar

from purgatory_async.native.switch import asked_for, sources_mark

__all__ = ["also_compiled", "compiled"]

C = TypeVar("C", bound=type)


def _load() -> ModuleType | None:
    """Return the extension; None where it was not built or, with a warning, cannot be used."""
    try:
        import purgatory_async.native._core as core  # noqa: PLC0415 - absent from a pure installation
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}._core":
            return None
        trouble = f"cannot be imported ({error})"
    except Exception as error:  # noqa: BLE001 - the reference works whatever is wrong with it
        trouble = f"cannot be imported ({type(error).__name__}: {error})"
    else:
        if not _is_stale(core):
            return core
        trouble = "was built from other sources"
    warnings.warn(
        f"the compiled core {trouble}: using pure Python; rebuild it with python purgatory_async/native/build.py, "
        "or reinstall",
        RuntimeWarning,
        stacklevel=3,
    )
    return None


def _is_stale(core: ModuleType) -> bool:
    """Whether the sources lie here, as in an editable installation, and the extension was built from others."""
    return sources_mark() not in {None, core.sources}


core = None if asked_for() == "pure" else _load()

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
