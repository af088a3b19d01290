"""Fifty thousand operations, and a process that is killed again and again while it works on them."""

import json
import random
import subprocess
from collections import defaultdict
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pipeline.distributed.purgatory_oracle import Operation, Outcome, Signal, outcome_of
from tests.pipeline.jobs.killed import kill, started, wait_for_something_new
from tests.pipeline.parquet_inputs import Inputs, read_outcomes

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


class Crash(NamedTuple):
    phase: str
    batches: int  # that are finished in this run before it comes


def some_crashes(seed: int) -> list[Crash]:
    """Two in the first batch of a run, which repeats unfinished work, and four after steady work."""
    some = random.Random(seed)
    phases = [some.choice(PHASES), *some.sample(PHASES, 4), some.choice(PHASES)]
    return [Crash(phase, batches) for phase, batches in zip(phases, (0, 2, 3, 0, 4, 2), strict=True)]


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


def filled(directory: Path, operations: list[Operation], signals: list[Signal]) -> Inputs:
    inputs = Inputs(directory)
    for start in range(0, COUNT, COUNT // FILES):
        inputs.submit(*operations[start : start + COUNT // FILES])
        inputs.signal(*signals[start : start + COUNT // FILES])
    return inputs


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


def run(directory: Path, *options: str) -> AbstractContextManager[subprocess.Popen]:
    return started(
        directory,
        "distributed",
        *("--operations", directory / "operations", "--signals", directory / "signals"),
        *("--out", directory / "out", "--checkpoint", directory / "checkpoint"),
        *("--time", "event", "--files-per-batch", "1", "--shards", "4", *options),
        *("--master", "local[4]"),  # two tasks for each stage: one may have kept its state, and the other not
    )


def wait_for_a_file(directory: Path, process: subprocess.Popen) -> None:
    wait_for_something_new(lambda: names(directory), names(directory), process, PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_six_kills_lose_nothing_and_end_as_one_machine_does(tmp_path, seed):
    # Exactly once rests on state, offsets and outcomes being of one batch, whichever of them a crash came after.
    operations, signals = operations_and_signals(seed)
    inputs = filled(tmp_path, operations, signals)
    beat_ns = T + SPAN + 60 * SECOND
    inputs.submit(Operation("beat", (), 1, beat_ns, SECOND))
    inputs.signal(Signal("beat", beat_ns, 1))
    for crash in some_crashes(seed):
        with run(tmp_path, "--available-now") as process:
            for _ in range(crash.batches):
                wait_for_a_file(tmp_path / "checkpoint/commits", process)
            wait_for_a_file(tmp_path / crash.phase, process)
            kill(process)
    with run(tmp_path, "--available-now") as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (tmp_path / "stderr").read_text()
    ends = expected(operations, signals)
    assert read_outcomes(tmp_path / "out") == ends
    completed = sum(end.outcome == "completed" for end in ends)
    assert json.loads(output.splitlines()[-1]) == {
        "submitted": COUNT + 1,
        "completed": completed,
        "expired": COUNT - completed,
        "pending": 1,
    }
    assert 0.1 < completed / COUNT < 0.9


@pytest.mark.slow
def test_asked_to_stop_amid_a_batch_it_tells_no_stack(tmp_path):
    # The fault: Spark's writer logged how its job was stopped, in 60 lines.
    filled(tmp_path, *operations_and_signals(1))
    state = tmp_path / "checkpoint/state"  # written to by tasks, so the first batch has begun to run
    with run(tmp_path) as process:
        wait_for_something_new(lambda: {str(path) for path in state.rglob("*")}, set(), process, PATIENCE_S)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, (tmp_path / "stderr").read_text()) == (0, "")
