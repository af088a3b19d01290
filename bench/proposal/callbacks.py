"""Contestants whose requests end in a callback: every design, and the empty harness."""

import inspect
import time
from collections.abc import Callable
from typing import Any

from bench.designs import DESIGNS, Design
from bench.proposal.contestant import Contestant, Tally
from bench.proposal.point import Point
from purgatory_async.clock import MonotonicClock

__all__ = ["callback_contestant", "own_wheel_size"]

KEYS = ("replica:0", "replica:1", "replica:2")
"""The proposal's requests all watch the same three keys."""


class _CallbackContestant(Contestant):
    """A design, with requests that count themselves."""

    def __init__(self, design: Design, point: Point, tally: Tally) -> None:
        self._design = design
        self.submit = _submitter(design, point, tally)
        self.answer = design.operation.force_complete

    @property
    def entries(self) -> int:
        """Entries in watch lists."""
        return self._design.kept

    def close(self) -> None:
        """Close the design."""
        self._design.close()


def callback_contestant(point: Point, tally: Tally, **options: Any) -> Contestant:
    """Make the design of that name, on the running loop; options are the design's own."""
    kind = DESIGNS[point.contestant]
    clock = MonotonicClock()
    # Only points of designs that have a wheel name a size: see `bench.proposal.plan`.
    size = {"wheel_size": point.wheel_size} if point.wheel_size else {}
    design: Design = kind(clock, **size, **options)
    return _CallbackContestant(design, point, tally)


def own_wheel_size(contestant: str) -> int:
    """A contestant's default wheel size; 0 if it takes none."""
    kind = DESIGNS.get(contestant)
    size = None if kind is None else inspect.signature(kind).parameters.get("wheel_size")
    return 0 if size is None else int(size.default)


def _submitter(design: Design, point: Point, tally: Tally) -> Callable[[int], object]:
    timeout, payload = design.timeout(point.timeout_ms), point.payload
    timeout_ns = point.timeout_ms * 1_000_000
    monotonic_ns = time.monotonic_ns
    watch = design.watch

    class Request(design.operation):  # type: ignore[name-defined,misc]  # its base is the design's
        """Carries a payload, and knows when it is due."""

        __slots__ = ("due_ns", "payload")

        def on_complete(self) -> None:
            """Count it."""
            tally.ended += 1

        def on_expiration(self) -> None:
            """Count it, and how late that is."""
            tally.lateness_ns.append(monotonic_ns() - self.due_ns)

    def submit(_: int) -> object:
        request = Request(timeout)
        request.payload = bytes(payload)
        request.due_ns = monotonic_ns() + timeout_ns
        tally.submitted += 1
        watch(request, KEYS)
        return request

    return submit
