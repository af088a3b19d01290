"""Samples of the single steps of an operation without a waiter, in nanoseconds of processor time each.

Made beforehand and outside the clock: keys, timeouts, shuffled orders; and the operations, except where
making them is what is timed.
"""

import asyncio
import time

from bench.core.workload import CallbackOperation, GatedOperation, Workload
from bench.measure.sampling import Sample
from purgatory_async import Purgatory

__all__ = ["complete_by_check", "complete_by_key", "expire", "make_and_watch", "visit", "watch"]

WATCHERS_PER_KEY = 100
WALKS = 5  # over all keys: one alone is over in half a millisecond


def watch(workload: Workload, shape: str) -> Sample:
    """``try_complete_else_watch(operation, (key,))`` of an operation whose condition does not hold yet."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        GatedOperation.condition_holds = False
        operations = [GatedOperation(timeout) for timeout in timeouts]
        async with Purgatory() as purgatory:
            try_complete_else_watch = purgatory.try_complete_else_watch
            started = time.process_time_ns()
            for operation, key in zip(operations, workload.keys, strict=True):
                try_complete_else_watch(operation, (key,))
            return (time.process_time_ns() - started) / workload.count

    return sample


def make_and_watch(workload: Workload, shape: str) -> Sample:
    """The same, with making the operation."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        GatedOperation.condition_holds = False
        async with Purgatory() as purgatory:
            try_complete_else_watch = purgatory.try_complete_else_watch
            started = time.process_time_ns()
            for timeout, key in zip(timeouts, workload.keys, strict=True):
                try_complete_else_watch(GatedOperation(timeout), (key,))
            return (time.process_time_ns() - started) / workload.count

    return sample


def complete_by_check(workload: Workload, shape: str) -> Sample:
    """``check_and_complete(key)``, which asks `try_complete`, which forces the completion."""

    async def sample() -> float:
        async with Purgatory() as purgatory:
            _fill(purgatory, workload, shape)
            GatedOperation.condition_holds = True
            shuffled = [workload.keys[index] for index in workload.order]
            check_and_complete = purgatory.check_and_complete
            started = time.process_time_ns()
            for key in shuffled:
                check_and_complete(key)
            spent = time.process_time_ns() - started
            assert purgatory.pending == 0, f"{purgatory.pending} operations are still pending"
        return spent / workload.count

    return sample


def complete_by_key(workload: Workload, shape: str) -> Sample:
    """``complete_for_key(key)``, which asks nothing."""

    async def sample() -> float:
        async with Purgatory() as purgatory:
            _fill(purgatory, workload, shape)
            shuffled = [workload.keys[index] for index in workload.order]
            complete_for_key = purgatory.complete_for_key
            started = time.process_time_ns()
            for key in shuffled:
                complete_for_key(key)
            spent = time.process_time_ns() - started
            assert purgatory.pending == 0, f"{purgatory.pending} operations are still pending"
        return spent / workload.count

    return sample


def expire(workload: Workload, *, spread: float) -> Sample:
    """The running timer expires all: unlinked from its key, both hooks called. Sleeping is free.

    Args:
        workload: How many.
        spread: Seconds over which the deadlines are spread, evenly and in random order; 0 for one timeout.
    """
    # Long enough to enter them all before the first is due, on a machine ten times slower than it should be.
    first = 0.2 + workload.count * 20e-6
    timeouts = [first + spread * index / workload.count for index in workload.order]

    async def sample() -> float:
        async with Purgatory() as purgatory:
            entered = time.monotonic()
            for timeout, key in zip(timeouts, workload.keys, strict=True):
                purgatory.try_complete_else_watch(CallbackOperation(timeout), (key,))
            started = time.process_time_ns()
            assert purgatory.pending == workload.count, (
                f"{workload.count - purgatory.pending} expired too soon"
            )
            await asyncio.sleep(entered + first + spread + 0.02 - time.monotonic())
            while purgatory.pending:  # noqa: ASYNC110 - an event would be one hook's work more
                await asyncio.sleep(0.005)
            return (time.process_time_ns() - started) / workload.count

    return sample


def visit(workload: Workload) -> Sample:
    """``check_and_complete(key)`` over operations that all stay, many to a key; per operation."""

    async def sample() -> float:
        GatedOperation.condition_holds = False
        keys = workload.keys[: max(1, workload.count // WATCHERS_PER_KEY)]
        async with Purgatory() as purgatory:
            for index in workload.order:
                purgatory.try_complete_else_watch(GatedOperation(60.0), (keys[index % len(keys)],))
            check_and_complete = purgatory.check_and_complete
            started = time.process_time_ns()
            for _ in range(WALKS):
                for key in keys:
                    check_and_complete(key)
            spent = time.process_time_ns() - started
            assert purgatory.pending == workload.count, "an operation that was only visited has ended"
        return spent / workload.count / WALKS

    return sample


def _fill(purgatory: Purgatory, workload: Workload, shape: str) -> None:
    """Make an operation for each key and watch it; only the purgatory refers to it."""
    GatedOperation.condition_holds = False
    for timeout, key in zip(workload.timeouts(shape), workload.keys, strict=True):
        purgatory.try_complete_else_watch(GatedOperation(timeout), (key,))
