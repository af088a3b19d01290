"""The command's part in a what-if: slices, sums over them, and what is written."""

import json

import msgspec
import pyarrow.parquet as pq
import pytest

from purgatory_async.pipeline.jobs.whatif import Wanted, run
from tests.pipeline.journals import MS, Node, live

SECOND = 1000 * MS
PREFIXED = {"a": "x:a", "b": "y/b", "z": "z:", "nobody": "nobody"}


def journal():
    """Two nodes; operations wait for a signal in the same slice, in the next one, and without end."""
    here, there = Node(node="n1"), Node(node="n2")
    for node in (here, there):
        node.submit("soon", 0, keys=("a",))
        node.submit("two of two", 1 * MS, keys=("a", "b"), needed=2)
        node.submit("endless", 2 * MS, keys=("z",), timeout=None)
        node.signal("a", 50 * MS)
        node.outcome("soon", 50 * MS, latency=50 * MS)
        node.signal("b", 150 * MS)
        node.outcome("two of two", 150 * MS, keys=("a", "b"), latency=149 * MS)
        node.submit("never", 160 * MS + 1, keys=("nobody",))
        node.outcome("never", 362 * MS, outcome="expired", keys=("nobody",), latency=202 * MS)
        node.signal("z", 10 * SECOND)
        node.outcome("endless", 10 * SECOND, keys=("z",), latency=10 * SECOND - 2 * MS)
    there.submit("last", 10 * SECOND)
    return here, there


def test_settings_are_recomputed_over_all_nodes_and_slices(spark, tmp_path):
    for node in journal():
        live(tmp_path, node.records, node=node.node)
    out = tmp_path / "out"
    out.mkdir()
    found = run(tmp_path, Wanted((0.1, 0.2), (0.001,), (8, 512)), out, spark)
    shown = [
        tuple(
            line[name]
            for name in ("timeout", "wheel_size", "completed", "expired", "pending", "decided_by_lateness")
        )
        for line in found["settings"]
    ]
    assert shown == [
        (0.1, 8, 4, 4, 1, 0),
        (0.1, 512, 4, 4, 1, 0),
        (0.2, 8, 6, 2, 1, 0),
        (0.2, 512, 6, 2, 1, 0),
    ]
    recorded = found["settings"][3]
    assert recorded["timeout_rate"] == 2 / 9
    assert recorded["lateness_mean_ns"] == MS - 1
    assert recorded["inserts_per_operation"] == 7 / 9
    # Each node: 50 ms, 149 ms, 10 s less 2 ms, and 361 ms less 160 ms and a nanosecond.
    assert recorded["pending_mean"] == pytest.approx(2 * (50 + 149 + 9998 + 201 - 1e-6) / 20_000)
    assert pq.read_table(out / "settings").to_pylist() == found["settings"]
    assert {name: found["recommended"][name] for name in ("timeout", "tick", "wheel_size")} == {
        "timeout": 0.2,
        "tick": 0.001,
        "wheel_size": 512,
    }
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert drawn == {
        f"{name}.{kind}" for name in ("expired", "pending", "inserts") for kind in ("svg", "png")
    }
    page = (out / "whatif.html").read_text()
    assert "Take a timeout of 0.2 s, a tick of 0.001 s and 512 buckets a level." in page
    assert "2 still expired, and no longer timeout was tried" in page


def test_each_prefix_is_recomputed_over_all_nodes_and_slices(spark, tmp_path):
    for node in journal():
        node.records = [
            msgspec.structs.replace(record, keys=[PREFIXED[key] for key in record.keys])
            if hasattr(record, "keys")
            else msgspec.structs.replace(record, key=PREFIXED[record.key])
            for record in node.records
        ]
        live(tmp_path, node.records, node=node.node)
    out = tmp_path / "out"
    out.mkdir()
    found = run(tmp_path, Wanted((0.1, 0.2, 1.0), (0.001,), (256,), by_prefix=True), out, spark)
    names = ("prefix", "operations", "recorded_timeout", "timeout", "completed", "expired", "guessed")
    # "two of two" has keys of x and y, and one more of x is pending at the end.
    assert [tuple(prefix[name] for name in names) for prefix in found["prefixes"]] == [
        ("x", 5, 0.2, 0.2, 4, 0, 0),
        (None, 2, 0.2, 0.1, 0, 2, 0),
        ("y", 2, 0.2, 0.2, 2, 0, 0),
        ("z", 2, None, None, None, None, None),
    ]
    rows = pq.read_table(out / "prefixes").to_pylist()
    ends = {
        (row["prefix"], row["timeout"]): (row["completed"], row["expired"], row["pending"]) for row in rows
    }
    assert ends["x", 0.1] == (2, 2, 1)
    assert ends["x", 0.2] == (4, 0, 1)
    assert ends["z", 0.1] == (2, 0, 0)
    assert {row["guessed"] for row in rows if row["prefix"] is None and row["timeout"] == 1.0} == {2}
    assert sum(row["recommended"] for row in rows) == 3
    assert json.loads((out / "summary.json").read_text()) == found
    assert "A timeout for each prefix" in (out / "whatif.html").read_text()


def test_a_moved_deadline_needs_signals_of_a_later_slice(spark, tmp_path):
    node = Node()
    node.submit("moved", 0)
    node.reschedule("moved", 100 * MS, 20 * SECOND)
    node.signal("a", 10 * SECOND)
    # Without a record of this end only the signal can say that it completes.
    live(tmp_path, node.records)
    out = tmp_path / "out"
    out.mkdir()
    found = run(tmp_path, Wanted((0.05, 0.2), (0.001,), (8,)), out, spark)
    assert [(line["completed"], line["expired"]) for line in found["settings"]] == [(0, 1), (1, 0)]
