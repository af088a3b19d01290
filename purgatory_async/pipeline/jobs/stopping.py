"""How a query without an end ends: Ctrl-C and SIGTERM are the wish to stop in good order."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stop_asked"]


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """Take signals as a wish while the block runs.

    Yields:
        Tells whether one came.
    """
    asked: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, lambda number, _: asked.append(number)) for kind in kinds]
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
