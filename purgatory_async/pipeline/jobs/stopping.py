"""Lets Ctrl-C and SIGTERM stop an endless query in good order."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stop_asked"]


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """Catch SIGINT and SIGTERM during the block; yields a function that returns whether one came."""
    asked: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, lambda number, _: asked.append(number)) for kind in kinds]
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
