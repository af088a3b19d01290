"""Samples of a timer's life: N are scheduled, then all cancelled in random order.

Each returns nanoseconds of processor time per timer. What waits is made beforehand on every side: our entry
(which an operation is itself), Kafka's task, a callback. What the timer needs to hold it is made in the
clock: nothing, Kafka's entry, the loop's handle. The pass of the loop that follows is in the clock too: there
the loops do what ``cancel()`` put off.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.core.workload import Workload
from bench.designs.kafka_wheel import KafkaTask, KafkaTimer, TaskEntry
from bench.measure.sampling import Sample
from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.timing import TimerEntry, TimingWheel

__all__ = ["kafka_churn", "loop_churn", "loop_moves", "operation_moves", "timer_churn", "wheel_churn"]

NS_PER_MS = 1_000_000


def nothing() -> None:
    """The callback of every timer: they are measured, not what they call."""


def wheel_churn(workload: Workload, shape: str, *, make_entries: bool = False) -> Sample:
    """The bare wheel with a tick of 1 ms: read the clock, round up, `schedule`; then `cancel`.

    Args:
        workload: How many, and in which order they are cancelled.
        shape: The shape of the timeouts.
        make_entries: Make the entries in the clock too.
    """
    # What rounds a deadline up to its tick is added here once instead of at every call.
    timeouts = [round(timeout * 1e9) + NS_PER_MS - 1 for timeout in workload.timeouts(shape)]

    def schedule_made(wheel: TimingWheel, entries: list[TimerEntry[None]]) -> None:
        monotonic_ns, schedule = time.monotonic_ns, wheel.schedule
        for entry, timeout_ns in zip(entries, timeouts, strict=True):
            entry.deadline_tick = (monotonic_ns() + timeout_ns) // NS_PER_MS
            schedule(entry)

    def make_and_schedule(wheel: TimingWheel, entries: list[TimerEntry[None]]) -> None:
        monotonic_ns, schedule, keep = time.monotonic_ns, wheel.schedule, entries.append
        for timeout_ns in timeouts:
            entry: TimerEntry[None] = TimerEntry((monotonic_ns() + timeout_ns) // NS_PER_MS)
            schedule(entry)
            keep(entry)

    async def sample() -> float:
        wheel = TimingWheel(start_tick=time.monotonic_ns() // NS_PER_MS)
        cancel = wheel.cancel
        entries: list[TimerEntry[None]] = [] if make_entries else [TimerEntry(0) for _ in timeouts]
        started = time.process_time_ns()
        (make_and_schedule if make_entries else schedule_made)(wheel, entries)
        spent = time.process_time_ns() - started
        shuffled = [entries[index] for index in workload.order]
        started = time.process_time_ns()
        for entry in shuffled:
            cancel(entry)
        await asyncio.sleep(0)
        spent += time.process_time_ns() - started
        assert len(wheel) == 0, f"{len(wheel)} entries survived their cancellation"
        return spent / workload.count

    return sample


def kafka_churn(workload: Workload, shape: str) -> Sample:
    """The port's bare wheel: read the clock, make the entry as Kafka's timer does, `add`; then `cancel`."""
    delays = [round(timeout * 1e3) for timeout in workload.timeouts(shape)]

    async def sample() -> float:
        monotonic_ns = time.monotonic_ns
        timer = KafkaTimer(start_ms=monotonic_ns() // NS_PER_MS)
        add = timer.wheel.add
        tasks = [KafkaTask(delay) for delay in delays]
        shuffled = [tasks[index] for index in workload.order]
        started = time.process_time_ns()
        for task in tasks:
            add(TaskEntry(task, monotonic_ns() // NS_PER_MS + task.delay_ms))
        for task in shuffled:
            task.cancel()
        await asyncio.sleep(0)
        spent = time.process_time_ns() - started
        assert len(timer) == 0, f"{len(timer)} tasks survived their cancellation"
        return spent / workload.count

    return sample


def loop_churn(workload: Workload, shape: str) -> Sample:
    """The running loop's own ``call_later`` and ``cancel``."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        return await _churn(asyncio.get_running_loop().call_later, workload, timeouts)

    return sample


def timer_churn(workload: Workload, shape: str) -> Sample:
    """`Timer.call_later` and ``cancel``; the timer arms its wakeup on the running loop."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        timer = Timer()
        spent = await _churn(timer.call_later, workload, timeouts)
        assert timer.pending == 0, f"{timer.pending} timers survived their cancellation"
        timer.close()
        return spent

    return sample


async def _churn(call_later: Callable[..., object], workload: Workload, timeouts: list[float]) -> float:
    handles: list[Any] = []
    keep = handles.append
    started = time.process_time_ns()
    for timeout in timeouts:
        keep(call_later(timeout, nothing))
    spent = time.process_time_ns() - started
    shuffled = [handles[index] for index in workload.order]
    handles.clear()
    started = time.process_time_ns()
    for handle in shuffled:
        handle.cancel()
    await asyncio.sleep(0)
    spent += time.process_time_ns() - started
    shuffled.clear()
    # uvloop frees in one pass what it closed in the pass before; that must not fall into the next sample.
    await asyncio.sleep(0)
    return spent / workload.count


def operation_moves(workload: Workload, shape: str) -> Sample:
    """N new deadlines of one pending operation: `DelayedOperation.reschedule`."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        async with Purgatory() as purgatory:
            operation = DelayedOperation[None](1)
            purgatory.try_complete_else_watch(operation, ["moved"])
            reschedule = operation.reschedule
            started = time.process_time_ns()
            for timeout in timeouts:
                reschedule(timeout)
            await asyncio.sleep(0)
            return (time.process_time_ns() - started) / workload.count

    return sample


def loop_moves(workload: Workload, shape: str) -> Sample:
    """The same by hand: cancel the loop's timer, and ask for another."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        call_later = asyncio.get_running_loop().call_later
        handle = call_later(1, nothing)
        started = time.process_time_ns()
        for timeout in timeouts:
            handle.cancel()
            handle = call_later(timeout, nothing)
        await asyncio.sleep(0)
        spent = time.process_time_ns() - started
        handle.cancel()
        return spent / workload.count

    return sample
