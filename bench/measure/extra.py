"""What a benchmark needs beyond the library: said in one sentence where it is missing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needing"]

OURS = ("bench", "purgatory_async")


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import in this block what an extra brings.

    Args:
        extra: The extra's name.

    Raises:
        SystemExit: 2, if something from outside is missing; what to install stands on standard error.
        ModuleNotFoundError: If something of ours is missing, which is a fault and no extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or OURS[0]).partition(".")[0]
        if missing in OURS:
            raise
        sys.stderr.write(f'{missing} is not installed; run: pip install "purgatory-async[{extra}]"\n')
        sys.exit(2)
