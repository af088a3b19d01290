"""The package's version."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

__all__ = ["VERSION"]


def _installed() -> str:
    try:
        return version("purgatory-async")
    except PackageNotFoundError:
        return "unknown"  # not installed


VERSION: Final = _installed()
