"""Fifty thousand operations, and a process that is killed again and again while it works on them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pipeline.parquet_inputs import Inputs, read_outcomes
from tests.pipeline.purgatory_oracle import Operation, Outcome, Signal, outcome_of
from tests.source_tree import ROOT

SECOND = 10**9
T = 1_700_000_000 * SECOND
COUNT = 50_000
FILES = 20
SPAN = 250 * SECOND
KEYS = 5_000
PATIENCE_S = 1200

# What Spark has done of a batch when the file appears: planned it; kept the state and put the outcomes in their list;
# done with it. A file of outcomes that is not in the list yet is the fourth.
PHASES = ("checkpoint/offsets", "out/outcomes/_spark_metadata", "checkpoint/commits", "out/outcomes")


class Kill(NamedTuple):
    phase: str
    batches: int  # that are finished in this run before it comes


def some_kills(seed: int) -> list[Kill]:
    """Two in the first batch of a run, where it repeats what was left, and four after steady work."""
    some = random.Random(seed)
    phases = [some.choice(PHASES), *some.sample(PHASES, 4), some.choice(PHASES)]
    return [Kill(phase, batches) for phase, batches in zip(phases, (0, 2, 3, 0, 4, 2), strict=True)]


def operations_and_signals(seed: int) -> tuple[list[Operation], list[Signal]]:
    some = random.Random(seed)

    def instants() -> list[int]:
        return sorted(T + some.randrange(SPAN) for _ in range(COUNT))

    operations = [
        Operation(
            f"op{number}",
            tuple(f"k{some.randrange(KEYS)}" for _ in range(some.randint(1, 3))),
            some.choice((1, 1, 1, 2, 3)),
            submit_ns,
            some.choice((1, 10, 30)) * SECOND + some.randrange(SECOND),
        )
        for number, submit_ns in enumerate(instants())
    ]
    return operations, [Signal(f"k{some.randrange(KEYS)}", at_ns, some.randint(1, 2)) for at_ns in instants()]


def expected(operations: list[Operation], signals: list[Signal]) -> list[Outcome]:
    by_key = defaultdict(list)
    for one in signals:
        by_key[one.key].append(one)
    return sorted(
        outcome_of(row, [one for key in set(row.keys) for one in by_key[key]]) for row in operations
    )


def names(directory: Path) -> set[str]:
    if not directory.is_dir():
        return set()
    return {path.name for path in directory.iterdir() if path.name.isdigit() or path.suffix == ".parquet"}


@contextmanager
def started(directory: Path) -> Iterator[subprocess.Popen]:
    """A run as a user would start it, in a session of its own, so that a kill takes Java and all workers with it."""
    arguments = [
        *("--operations", directory / "operations", "--signals", directory / "signals"),
        *("--out", directory / "out", "--checkpoint", directory / "checkpoint"),
        *("--time", "event", "--available-now", "--files-per-batch", "1", "--shards", "4"),
        *("--master", "local[2]"),
    ]
    with (directory / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "pipeline", "distributed", *map(str, arguments)],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_for_a_file(directory: Path, known: set[str], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while names(directory) <= known:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, f"nothing new in {directory} for {PATIENCE_S} s"
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_killed_six_times_it_loses_and_doubles_nothing_and_every_end_is_that_of_one_machine(tmp_path, seed):
    # Exactly once rests on state, offsets and outcomes being of one batch, whichever of them a crash came after.
    operations, signals = operations_and_signals(seed)
    inputs = Inputs(tmp_path)
    for start in range(0, COUNT, COUNT // FILES):
        inputs.submit(*operations[start : start + COUNT // FILES])
        inputs.signal(*signals[start : start + COUNT // FILES])
    beat_ns = T + SPAN + 60 * SECOND
    inputs.submit(Operation("beat", (), 1, beat_ns, SECOND))
    inputs.signal(Signal("beat", beat_ns, 1))
    for kill in some_kills(seed):
        with started(tmp_path) as process:
            for _ in range(kill.batches):
                wait_for_a_file(commits := tmp_path / "checkpoint/commits", names(commits), process)
            wait_for_a_file(place := tmp_path / kill.phase, names(place), process)
            os.killpg(process.pid, signal.SIGKILL)
    with started(tmp_path) as process:
        told, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (tmp_path / "stderr").read_text()
    ends = expected(operations, signals)
    assert read_outcomes(tmp_path / "out") == ends
    completed = sum(end.outcome == "completed" for end in ends)
    assert json.loads(told.splitlines()[-1]) == {
        "submitted": COUNT + 1,
        "completed": completed,
        "expired": COUNT - completed,
        "pending": 1,
    }
    assert 0.1 < completed / COUNT < 0.9
