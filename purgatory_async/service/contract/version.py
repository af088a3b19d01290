"""The package's version, and which of its cores runs."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from purgatory_async import compiled


def _installed() -> str:
    try:
        return version("purgatory-async")
    except PackageNotFoundError:
        return "unknown"  # not installed


VERSION: Final = _installed()
CORE: Final = "compiled" if compiled else "pure"
