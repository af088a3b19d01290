"""A journal that grows and is rotated, and a stream that is killed again and again while it counts it."""

import json
import os
import random
import signal
from collections import Counter
from functools import partial

import pyarrow.parquet as pq
import pytest

from purgatory_async.pipeline.windows import OUTCOMES
from tests.pipeline.jobs.killed import kill, started, wait_for_something_new
from tests.pipeline.journals import MS, Node, append, lines, live, rotated

SECOND = 1_000_000_000
PATIENCE_S = 300
COUNTS = ("submitted", *OUTCOMES)

# What has been done of a batch when something new is there: it was planned; its rows were published; its state is kept;
# Spark knows that it is done.
PHASES = ("checkpoint/query/offsets", "out/windows", "checkpoint/state", "checkpoint/query/commits")


def busy_node(name, count, some):
    """Operations that end up to some segments later, in any way, or never."""
    node = Node(node=name)
    open_ones = []
    for number in range(count):
        at = number * 7 * MS
        open_ones.append((f"op-{number}", [f"k{some.randrange(50)}" for _ in range(some.randint(1, 3))]))
        node.submit(*open_ones[-1][:1], at, keys=open_ones[-1][1])
        if some.random() < 0.9:
            op_id, keys = open_ones.pop(some.randrange(len(open_ones)))
            word = some.choice(OUTCOMES)
            node.outcome(op_id, at, outcome=word, keys=keys, latency=some.randrange(SECOND))
            if some.random() < 0.05:
                node.outcome(op_id, at, outcome="closed", keys=keys)
    return node


def expected(nodes):
    """A walk over the records in order of seq."""
    counts = Counter()
    for node in nodes:
        pending = {}
        for record in node.records:
            word = getattr(record, "outcome", "submitted")
            if word == "submitted":
                pending[record.op_id] = set(record.keys)
            elif record.op_id not in pending:
                continue
            keys = pending[record.op_id] if word == "submitted" else pending.pop(record.op_id)
            for key in keys:
                counts[record.wall_ns // SECOND * SECOND, key, word] += 1
    return counts


def found(out):
    counts = Counter()
    for row in pq.read_table(out / "windows").to_pylist():
        for word in COUNTS:
            counts[row["window_start_ns"], row["key"], word] += row[word]
    return +counts


class Journal:
    """Three nodes' segments, which come to be while the stream runs."""

    def __init__(self, directory, some, count=500, segments=8):
        directory.mkdir()
        self.directory = directory
        self.nodes = [busy_node(name, count, some) for name in ("n1", "n2", "n3")]
        self.parts = {}
        for node in self.nodes:
            length = -(-len(node.records) // segments)
            for number in range(segments):
                self.parts[node.node, number + 1] = node.records[number * length : (number + 1) * length]

    def grow(self, step):
        """The next segment of each node: half of it with a torn line, the one before whole, older ones rotated."""
        for (node, number), records in self.parts.items():
            if number == step:
                half = len(records) // 2
                append(live(self.directory, records[:half], number, node=node), lines(records[half:])[:777])
            elif number == step - 1:
                live(self.directory, records, number, node=node)
            elif number < step - 1:
                rotated(self.directory, records, number, node=node)


def run(directory, *more):
    return started(
        directory,
        "stream",
        *("--journal", directory / "journal", "--out", directory / "out"),
        *("--checkpoint", directory / "checkpoint"),
        *("--window", "1", "--files-per-batch", "2", "--master", "local[2]", *more),
    )


def names(directory):
    entries = directory.iterdir() if directory.is_dir() else ()
    return {path.name for path in entries if path.name.isdigit() or path.name.startswith("batch-")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_killed_at_every_phase_it_counts_each_record_once(tmp_path, seed):
    some = random.Random(seed)
    journal = Journal(tmp_path / "journal", some)
    phases = some.sample(PHASES, len(PHASES))
    for step, phase in enumerate(phases, start=1):
        journal.grow(step)
        with run(tmp_path) as process:
            wait_for_something_new(
                partial(names, place := tmp_path / phase), names(place), process, PATIENCE_S
            )
            kill(process)
    for step in range(len(phases) + 1, 11):
        journal.grow(step)
    with run(tmp_path, "--available-now") as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (tmp_path / "stderr").read_text()
    assert json.loads(output.splitlines()[-1])["batches"] > 1
    assert found(tmp_path / "out") == expected(journal.nodes)
    assert pq.read_table(tmp_path / "out" / "quarantine").num_rows == 0
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".windows")]


# A stream runs until a signal ends it, which is no failure.
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_tells_what_it_did(tmp_path, how):
    journal = Journal(tmp_path / "journal", random.Random(1), count=50, segments=1)
    journal.grow(2)
    with run(tmp_path) as process:
        commits = partial(names, tmp_path / "checkpoint/query/commits")
        wait_for_something_new(commits, {"0"}, process, PATIENCE_S)
        process.send_signal(how)
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(output.splitlines()[-1])["batches"] == 2
    assert found(tmp_path / "out") == expected(journal.nodes)


@pytest.mark.slow
def test_sigterm_to_the_process_group_ends_in_a_sentence(tmp_path):
    # The fault: Java ends by the same signal, and each call on the way out adds its stack: 110 lines and exit code 1.
    journal = Journal(tmp_path / "journal", random.Random(1), count=50, segments=1)
    journal.grow(2)
    with run(tmp_path) as process:
        commits = partial(names, tmp_path / "checkpoint/query/commits")
        wait_for_something_new(commits, {"0"}, process, PATIENCE_S)
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
    told = (tmp_path / "stderr").read_text()
    if process.returncode == 0:  # this process was done with Java before that ended
        assert (json.loads(output)["batches"], told) == (2, "")
    else:
        assert process.returncode == 143
        assert told == "purgatory: terminated; only complete results are in place\n"
