"""Which points are run, in which order, and when a contestant has had enough."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.proposal.callbacks import own_wheel_size
from bench.proposal.lost import OURS
from bench.proposal.point import FLOOD, Point, Reading

__all__ = ["OWN", "Plan"]

OWN = 0
"""A design's default wheel size."""

SATURATED = 0.9
"""A contestant that reaches less than this share of the offered rate is offered no more, except the flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The points of a run.

    Args:
        contestants: Names.
        loops: Names.
        cases: Names.
        rates: Requests offered per second.
        collectors: Settings of the garbage collector.
        wheel_sizes: For designs that have a wheel, `OWN` for each one's own; a design without one runs once.
        pure: The library's core: False for the compiled one, True for pure Python, which runs only with its
            own size of wheel.
        requests: How many requests a point has, unless it would take too long.
        longest_s: How long requests of a point come at most, in seconds.
        repeats: Readings of each point.
        seed: The seed of the load, and of the order.
    """

    contestants: Sequence[str]
    loops: Sequence[str]
    cases: Sequence[str]
    rates: Sequence[int]
    collectors: Sequence[str]
    wheel_sizes: Sequence[int]
    pure: Sequence[bool]
    requests: int
    longest_s: float
    repeats: int
    seed: int

    def rounds(self, readings: Mapping[Point, Sequence[Reading]]) -> Iterator[list[Point]]:
        """The points of each round: all contestants once, in an order of their own.

        So what a machine does to its guests falls on all alike, and who is compared ran within the same minutes.

        Args:
            readings: What is known when the next round is asked for.

        Yields:
            Rounds, rate by rate; who was saturated by a lower rate is left out of those that follow.
        """
        chance = random.Random(self.seed)
        for rate in (*sorted(self.rates), FLOOD):
            points = [
                point for point in self._points(rate) if rate == FLOOD or not self._saturated(point, readings)
            ]
            for _ in range(self.repeats):
                yield chance.sample(points, len(points))

    def _points(self, rate: int) -> Iterator[Point]:
        requests = self.requests if rate == FLOOD else min(self.requests, round(rate * self.longest_s))
        for case in self.cases:
            for loop in self.loops:
                for collector in self.collectors:
                    for contestant, wheel_size, pure in self._variants:
                        yield Point(
                            contestant=contestant,
                            loop=loop,
                            case=case,
                            rate=rate,
                            requests=requests,
                            collector=collector,
                            wheel_size=wheel_size,
                            pure=pure,
                            seed=self.seed,
                        )

    @property
    def _variants(self) -> Iterator[tuple[str, int, bool]]:
        """Each contestant with each size of wheel and each build that makes a difference to it."""
        for contestant in self.contestants:
            own = own_wheel_size(contestant)
            sizes = {OWN if size == own else size for size in self.wheel_sizes} if own else {OWN}
            builds = self.pure if contestant in OURS else (False,)
            for size in sorted(sizes):
                # A size of ours that is not its own is there to be compared with its own.
                yield from ((contestant, size, pure) for pure in (builds if size == OWN else builds[:1]))

    def _saturated(self, point: Point, readings: Mapping[Point, Sequence[Reading]]) -> bool:
        return any(
            all(reading.rate_reached < SATURATED * known.rate for reading in of_point)
            for known, of_point in readings.items()
            if known.rate < point.rate and replace(known, rate=point.rate, requests=point.requests) == point
        )
