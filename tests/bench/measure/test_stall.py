"""The stall watch keeps the longest pass, and discounts interruptions by a shared machine."""

import asyncio

import pytest

from bench.measure import stall
from bench.measure.stall import StallWatch


class Machine:
    """Two clocks that move only on request, and a count of interruptions."""

    wall_ns = 0
    cpu_ns = 0
    switches = 0

    def perf_counter_ns(self):
        return self.wall_ns

    def process_time_ns(self):
        return self.cpu_ns

    def work(self, wall_ms, cpu_ms, *, interruptions=0):
        self.wall_ns += wall_ms * 1_000_000
        self.cpu_ns += cpu_ms * 1_000_000
        self.switches += interruptions


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(stall, "time", machine)
    monkeypatch.setattr(stall, "involuntary_switches", lambda: machine.switches)
    return machine


@pytest.mark.asyncio
async def test_the_longest_pass_is_kept_in_wall_time(machine):
    watch = StallWatch()
    for wall_ms, cpu_ms in ((1, 1), (7, 2), (3, 3)):
        asyncio.get_running_loop().call_soon(machine.work, wall_ms, cpu_ms)
        await watch.watch_pass()
    assert (watch.longest_ms, watch.longest_wall_ms, watch.passes, watch.interrupted) == (7.0, 7.0, 3, 0)


@pytest.mark.asyncio
async def test_a_preempted_pass_counts_only_its_processor_time(machine):
    watch = StallWatch()
    loop = asyncio.get_running_loop()
    for wall_ms, interruptions in ((2, 0), (12, 1)):
        loop.call_soon(lambda wall=wall_ms, n=interruptions: machine.work(wall, 1, interruptions=n))
        await watch.watch_pass()
    assert (watch.longest_ms, watch.longest_wall_ms, watch.passes, watch.interrupted) == (2.0, 12.0, 2, 1)


@pytest.mark.asyncio
async def test_work_of_the_watcher_between_passes_is_not_counted(machine):
    watch = StallWatch()
    await watch.watch_pass()
    machine.work(50, 50)
    await watch.watch_pass()
    assert watch.longest_ms == 0.0
