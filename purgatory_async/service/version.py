"""Which version of the package this is."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

__all__ = ["VERSION"]


def _installed() -> str:
    try:
        return version("purgatory-async")
    except PackageNotFoundError:
        return "unknown"  # run from its sources


VERSION: Final = _installed()
