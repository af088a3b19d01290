"""Run scenes of the core in this process, for the build that `PURGATORY_ASYNC_PURE` selects.

``python -m bench.core.build_probe LOOP COUNT ROUNDS SCENE...`` prints one JSON object: for each scene, the
median processor time of an operation in nanoseconds. The garbage collector is off.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

from bench.core.task_samples import (
    awaited_operation,
    bare_future,
    by_hand,
    keyed_wait,
    timer_scope,
    under_timeout,
)
from bench.core.timer_samples import loop_churn, loop_moves, operation_moves, timer_churn
from bench.core.workload import GatedOperation, Workload
from bench.designs.by_hand import ByHandPurgatory, HandOperation
from bench.measure.loops import run_on
from bench.measure.sampling import Sample
from purgatory_async import Purgatory
from purgatory_async.clock import MonotonicClock

__all__ = ["SCENES"]

SEED: Any = SimpleNamespace(seed=1)


def make_watch_complete(workload: Workload, shape: str, watched: list[tuple[str, ...]]) -> Sample:
    """Make N operations, watch each on its keys, complete all by checks of their first keys."""
    timeouts = workload.timeouts(shape)
    checked = list(dict.fromkeys(watched[index][0] for index in workload.order))

    async def sample() -> float:
        GatedOperation.condition_holds = False
        async with Purgatory() as purgatory:
            watch, check = purgatory.try_complete_else_watch, purgatory.check_and_complete
            started = time.process_time_ns()
            for timeout, keys in zip(timeouts, watched, strict=True):
                watch(GatedOperation(timeout), keys)
            GatedOperation.condition_holds = True
            for key in checked:
                check(key)
            spent = time.process_time_ns() - started
            assert purgatory.pending == 0, f"{purgatory.pending} operations are still pending"
        return spent / workload.count

    return sample


def one_key(workload: Workload, shape: str) -> Sample:
    """Each operation watches one key of its own."""
    return make_watch_complete(workload, shape, [(key,) for key in workload.keys])


def one_key_by_hand(workload: Workload) -> Sample:
    """The same with a dict of dicts and the loop's ``call_later``."""
    timeouts = [round(1_000 * timeout) for timeout in workload.timeouts("same")]

    class Gated(HandOperation):
        """Its condition is one flag for all, as of `GatedOperation`."""

        __slots__ = ()

        def try_complete(self) -> bool:
            """Complete if the flag is up."""
            return GatedOperation.condition_holds and self.force_complete()

    async def sample() -> float:
        GatedOperation.condition_holds = False
        purgatory = ByHandPurgatory(MonotonicClock())
        watch, check = purgatory.watch, purgatory.check
        started = time.process_time_ns()
        for timeout, key in zip(timeouts, workload.keys, strict=True):
            watch(Gated(timeout), (key,))
        GatedOperation.condition_holds = True
        for index in workload.order:
            check(workload.keys[index])
        await asyncio.sleep(0)  # there the loops do what cancelling a timer put off
        spent = time.process_time_ns() - started
        assert purgatory.pending == 0, f"{purgatory.pending} operations are still pending"
        return spent / workload.count

    return sample


def three_own_keys(workload: Workload, shape: str) -> Sample:
    """Each operation watches three keys of its own."""
    return make_watch_complete(
        workload, shape, [(key, f"{key}-second", f"{key}-third") for key in workload.keys]
    )


def three_shared_keys(workload: Workload, shape: str) -> Sample:
    """All operations watch the same three keys; one check completes them."""
    return make_watch_complete(workload, shape, [("first", "second", "third")] * workload.count)


SCENES: dict[str, Callable[[Workload], Sample]] = {
    "one key": lambda workload: one_key(workload, "same"),
    "one key by hand": one_key_by_hand,
    "one key, int": lambda workload: one_key(workload, "same int"),
    "three own keys": lambda workload: three_own_keys(workload, "same"),
    "three own keys, int": lambda workload: three_own_keys(workload, "same int"),
    "three shared keys": lambda workload: three_shared_keys(workload, "same"),
    "three shared keys, int": lambda workload: three_shared_keys(workload, "same int"),
    "timer, same": lambda workload: timer_churn(workload, "same"),
    "timer, spread": lambda workload: timer_churn(workload, "uniform"),
    "call_later, same": lambda workload: loop_churn(workload, "same"),
    "call_later, spread": lambda workload: loop_churn(workload, "uniform"),
    "bare future": bare_future,
    "wait": lambda workload: keyed_wait(workload, "same"),
    "asyncio.timeout": lambda workload: under_timeout(workload, "same"),
    "timer.timeout": lambda workload: timer_scope(workload, "same"),
    "reschedule": lambda workload: operation_moves(workload, "same"),
    "call_later again": lambda workload: loop_moves(workload, "same"),
    "awaited operation": lambda workload: awaited_operation(workload, "same"),
    "call_later by hand": lambda workload: by_hand(workload, "same"),
}


async def measured(samples: dict[str, Sample], rounds: int) -> dict[str, float]:
    """Let the samples take turns; return the median of each."""
    taken: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(rounds):
        for name, sample in samples.items():
            taken[name].append(await sample())
            await asyncio.sleep(0)
    return {name: median(figures) for name, figures in taken.items()}


def main() -> None:
    """Measure as the arguments say."""
    loop, count, rounds, *names = sys.argv[1:]
    gc.disable()
    workload = Workload.of(int(count), SEED)
    print(json.dumps(run_on(loop, measured({name: SCENES[name](workload) for name in names}, int(rounds)))))


if __name__ == "__main__":
    main()
