"""The watch on the loop keeps the longest pass."""

import asyncio

import pytest

from bench.measure import stall
from bench.measure.stall import StallWatch


class Clock:
    """Two clocks that only go when told."""

    wall_ns = 0
    cpu_ns = 0

    def perf_counter_ns(self):
        return self.wall_ns

    def process_time_ns(self):
        return self.cpu_ns


@pytest.mark.asyncio
async def test_the_longest_pass_is_kept_in_wall_and_processor_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stall, "time", clock)
    watch = StallWatch()

    def block(wall_ms, cpu_ms):
        clock.wall_ns += wall_ms * 1_000_000
        clock.cpu_ns += cpu_ms * 1_000_000

    loop = asyncio.get_running_loop()
    for wall_ms, cpu_ms in ((1, 1), (7, 2), (3, 3)):
        loop.call_soon(block, wall_ms, cpu_ms)
        await watch.watch_pass()
    assert (watch.longest_ms, watch.longest_cpu_ms, watch.passes) == (7.0, 3.0, 3)


@pytest.mark.asyncio
async def test_what_the_watcher_itself_does_between_passes_is_not_counted(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stall, "time", clock)
    watch = StallWatch()
    await watch.watch_pass()
    clock.wall_ns += 50_000_000
    await watch.watch_pass()
    assert watch.longest_ms == 0.0
