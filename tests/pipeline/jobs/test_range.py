"""Reports and windows of a range of time: days add up to the whole, and only what a day needs is read."""

import pyarrow.parquet as pq
import pytest

from purgatory_async.pipeline.jobs import report, windows
from purgatory_async.pipeline.operations.between import Between
from purgatory_async.pipeline.source.extent import survey
from purgatory_async.pipeline.windows import add_up
from tests.pipeline.journals import EPOCH, MS, Node, append, live, rotated

HOUR = 3_600_000 * MS
DAY = 24 * HOUR
EDGES = (EPOCH + DAY, EPOCH + 2 * DAY)


@pytest.fixture
def node():
    """Three days with an operation each four hours, which takes seven, and signals; one of each day ends never."""
    node = Node()
    steps = [(hour * HOUR, "submit", f"op{hour}") for hour in range(0, 72, 4)]
    steps += [((hour + 7) * HOUR, "outcome", f"op{hour}") for hour in range(0, 72, 4) if hour % 24 != 8]
    steps += [(hour * HOUR, "signal", "x:1") for hour in range(72)]
    for at, kind, name in sorted(steps):
        if kind == "submit":
            node.submit(name, at, keys=("x:1", "y"), timeout=None)
        elif kind == "outcome":
            node.outcome(name, at, keys=("x:1", "y"), latency=7 * HOUR)
        else:
            node.signal(name, at)
    return node


@pytest.fixture
def journal(node, tmp_path):
    """In nine segments, the last of which is live."""
    directory = tmp_path / "journal"
    directory.mkdir()
    step = len(node.records) // 9 + 1
    for number in range(8):
        rotated(directory, node.records[number * step : (number + 1) * step], number + 1)
    live(directory, node.records[8 * step :], 9)
    return directory


def read(extent):
    """The numbers of the segments that are read."""
    names = [piece.segment for piece in extent.everything]
    return sorted(int(name.rpartition(".")[2]) for name in names)


def test_segments_before_a_range_are_not_read(journal, node):
    assert read(survey(journal)) == list(range(1, 10))
    step = len(node.records) // 9 + 1
    for edge in EDGES:
        first = next(place for place, record in enumerate(node.records) if record.wall_ns >= edge)
        # One that ended before is kept: it shows that nothing is missing, and since when the node was there.
        assert read(survey(journal, Between(edge))) == list(range(first // step, 10))
        assert first // step > 1
    assert read(survey(journal, Between(EPOCH + 99 * DAY))) == [8, 9]
    assert read(survey(journal, Between(None, EDGES[0]))) == list(range(1, 10))


def test_a_segment_whose_statistics_say_nothing_is_read(journal):
    path = journal / "run.n1.000001.parquet"
    pq.write_table(pq.read_table(path), path, write_statistics=False)
    assert read(survey(journal, Between(EDGES[1]))) == list(range(1, 10))


def test_a_day_is_the_same_from_less_of_the_journal(spark, journal, node, tmp_path):
    (tmp_path / "lines").mkdir()
    live(tmp_path / "lines", node.records)
    found = []
    for directory in (journal, tmp_path / "lines"):
        out = tmp_path / f"{directory.name}-day"
        out.mkdir()
        found.append(report.run(survey(directory, Between(*EDGES)), out, spark))
    assert found[0] == found[1]
    day = found[0]
    assert day["operations"] == 6
    assert (day["outcomes"]["completed"], day["outcomes"]["pending"]) == (5, 1)
    # Operations of the day before that end in it are none of its anomalies; what is pending waits to the journal's end.
    assert (day["anomalies"], day["missing"], day["keys"]) == (0, [], 2)
    last = max(record.mono_ns for record in node.records)
    assert day["pending_mean"] == (5 * 7 * HOUR + last - 32 * HOUR) / DAY
    start, end = "2026-09-22T00:00:00Z", "2026-09-23T00:00:00Z"
    assert day["range"] == {"from": start, "to": end}
    out = tmp_path / "journal-day"
    submits = pq.read_table(out / "outcomes")["submit_wall_ns"].to_pylist()
    assert sorted(submits) == [EDGES[0] + hour * HOUR for hour in range(0, 24, 4)]
    timeline = pq.read_table(out / "timeline").to_pylist()
    assert timeline[0]["start_ns"] <= EDGES[0] < timeline[0]["start_ns"] + timeline[0]["width_ns"]
    assert timeline[-1]["start_ns"] < EDGES[1]
    assert [row["signals"] for row in pq.read_table(out / "prefixes").to_pylist()] == [24, 0]
    assert f"submitted from {start} on and before {end}" in (out / "report.html").read_text()


def test_the_windows_of_days_add_up_to_those_of_all(spark, journal, node, tmp_path):
    append(journal / "run.n1.000009.jsonl", b"")
    limits = [(None, None), (None, EDGES[0]), EDGES, (EDGES[1], None)]
    tables = []
    for place, pair in enumerate(limits):
        out = tmp_path / str(place)
        out.mkdir()
        found = windows.run(survey(journal, Between(*pair)), out, HOUR, spark)
        assert ("range" in found) == (place > 0)
        table = add_up(spark.read.parquet(str(out / "windows")), HOUR).drop("latency_sketch")
        tables.append(sorted(map(tuple, table.collect())))
    whole, *days = tables
    keys = {}
    for day in days:
        for start, key, *counts in day:
            keys[start, key] = [a + b for a, b in zip(keys.get((start, key), [0] * 6), counts, strict=True)]
    assert sorted((*key, *counts) for key, counts in keys.items()) == whole
    assert sum(row[2] for row in days[1]) == 2 * 6
