"""The load arrives and is answered on time, and keeps the loop free, whatever the contestant does."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from bench.proposal import feed as feed_module
from bench.proposal.feed import AT_ONCE, Feed
from purgatory_async.testing import VirtualTimeLoop

NS_PER_MS = 1_000_000
TIMEOUT_MS = 200


class World:
    """A feed in virtual time; a contestant may take real time, which is ``lag_ns``."""

    def __init__(self, monkeypatch):
        self.lag_ns = 0
        self.taken_ms = {}
        self.answered_ms = {}
        self.twice = []
        self.ms_per_request = 0.0
        clock = SimpleNamespace(monotonic_ns=lambda: self.loop.time_ns() + self.lag_ns)
        monkeypatch.setattr(feed_module, "time", clock)

    def now_ms(self):
        return (self.loop.time_ns() + self.lag_ns) / NS_PER_MS

    def submit(self, number):
        self.taken_ms[number] = self.now_ms()
        self.lag_ns += int(self.ms_per_request * NS_PER_MS)
        return number

    def answer(self, number):
        if number in self.answered_ms:
            self.twice.append(number)
        self.answered_ms[number] = self.now_ms()

    def run(self, arrivals_ms, latencies_ms, beside=None, submit=None):
        async def main():
            self.loop = asyncio.get_running_loop()
            arrivals_ns = [round(ms * NS_PER_MS) for ms in arrivals_ms]
            feed = Feed(arrivals_ns, latencies_ms, TIMEOUT_MS, submit or self.submit, self.answer)
            running = asyncio.ensure_future(feed.run())
            if beside is not None:
                await beside(running)
            await asyncio.wait_for(running, 60)  # of virtual time: a feed that never ends fails at once
            assert self.twice == [], f"{self.twice} were answered twice"
            return feed

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(main())


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_each_request_comes_at_its_time_and_never_before(world):
    arrivals = [0, 0.5, 3, 3, 40.25, 1000]
    world.run(arrivals, [1] * 6)
    assert list(world.taken_ms) == list(range(6))
    for number, ms in enumerate(arrivals):
        assert ms <= world.taken_ms[number] <= ms + 1.01


@pytest.mark.parametrize("latency_ms", [1, 2, 57, 199])
def test_a_request_is_answered_exactly_after_its_latency(world, latency_ms):
    # The fault: a slot of the ring off by one, or the ring too short for the longest latency.
    world.run([0, 0.4, 7, 333.3], [latency_ms] * 4)
    for number in range(4):
        waited = world.answered_ms[number] - world.taken_ms[number]
        assert latency_ms - 1 < waited <= latency_ms + 1.01


@pytest.mark.parametrize(("latency_ms", "answered"), [(199, 1), (200, 0), (201, 0), (90_000, 0)])
def test_what_takes_as_long_as_the_timeout_is_never_answered(world, latency_ms, answered):
    # The fault: such a request wraps around the ring and is answered at once.
    world.run([0, 500], [latency_ms, 1])
    assert (0 in world.answered_ms) == bool(answered)
    assert 1 in world.answered_ms


def test_the_loop_gets_a_turn_after_each_budget(world):
    # The fault: a flood is taken in one go, and the contestant's timers do not run.
    turns, count = [0], 3 * AT_ONCE + 10

    async def beside(_):
        for _ in range(20):
            await asyncio.sleep(0)
            turns.append(len(world.taken_ms))

    world.run([0] * count, [5] * count, beside)
    assert len(world.taken_ms) == count
    assert max(after - before for before, after in pairwise(turns)) == AT_ONCE


def test_behind_schedule_it_never_pauses_or_drops(world):
    # The fault: a pause after every pass although the next request is long due.
    world.ms_per_request = 2.0
    count = 2 * AT_ONCE
    feed = world.run([number * 0.1 for number in range(count)], [3] * count)
    assert set(world.answered_ms) == set(world.taken_ms) == set(range(count))
    assert feed.taken_s == pytest.approx(count * 0.002, rel=0.01)
