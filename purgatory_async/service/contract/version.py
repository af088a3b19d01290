"""The package's version, and which of its cores runs."""

from typing import Final

from purgatory_async import __version__, compiled

VERSION: Final = __version__
CORE: Final = "compiled" if compiled else "pure"
