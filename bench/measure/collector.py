"""The garbage collector as a user would have it, and off.

At 100 000 objects and more a benchmark with the collector on measures the collector as much as the subject;
one with it off measures what no user has. So everything here is measured both ways.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

__all__ = ["Collector", "collector_set"]

# CPython 3.11's own; set explicitly, so that nothing imported earlier decides it.
DEFAULT_THRESHOLDS = (700, 10, 10)


class Collector(StrEnum):
    """How the collector is set while something is measured."""

    DEFAULT = "gc on"
    OFF = "gc off"


@contextmanager
def collector_set(mode: Collector) -> Iterator[None]:
    """Set the collector for the length of the block, and put back what was."""
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.set_threshold(*DEFAULT_THRESHOLDS)
    _switch(mode is Collector.DEFAULT)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        _switch(enabled)


def _switch(on: bool) -> None:
    if on:
        gc.enable()
    else:
        gc.disable()
