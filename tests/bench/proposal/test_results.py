"""Summaries of readings: medians, ranges, net of the harness; and files that round-trip."""

import dataclasses
import json

import pytest

from bench.proposal.point import FLOOD, HARNESS
from bench.proposal.results import heading, line, net_cpu
from tests.bench.proposal.made import MACHINE, measured, point, reading

pytest.importorskip("pyarrow", reason="the files need the extra spark")

import pyarrow.parquet as pq

from bench.proposal.files import load, save


def cpu(*seconds):
    return [reading(cpu_s_per_million=each, round_number=number) for number, each in enumerate(seconds, 1)]


def test_net_uses_the_harness_of_the_same_round_and_load():
    # The faults: medians are subtracted, the harness of another loop or size is taken, or one of pure Python is sought.
    ours = point(wheel_size=20, pure=True)
    readings = {
        ours: cpu(10.0, 20.0, 31.0),
        point(HARNESS): cpu(1.0, 9.0, 2.0),
        point(HARNESS, loop="uvloop"): cpu(0.0, 0.0, 0.0),
    }
    assert net_cpu(readings, ours) == (9.0, 11.0, 29.0)
    assert net_cpu({ours: cpu(10.0)}, ours) is None


@pytest.mark.parametrize("missing", ["ours", "the harness"])
def test_net_leaves_out_a_round_in_which_one_of_the_two_failed(missing):
    # The fault: the readings after the one that failed are paired with readings of the round before.
    ours, alone = cpu(10.0, 20.0, 31.0), cpu(1.0, 9.0, 2.0)
    del (ours if missing == "ours" else alone)[1]
    assert net_cpu({point(): ours, point(HARNESS): alone}, point()) == (9.0, 19.0, 29.0)


def test_a_line_has_gross_and_net_under_the_heading():
    readings = {point(): cpu(4.0, 5.0, 7.0), point(HARNESS): cpu(1.0, 1.5, 1.0)}
    ours = line(readings, point())
    assert "5.00 [4.00-7.00]" in ours
    assert len(ours) == len(heading())
    assert ours[: heading().index("timed out")].split()[-1] == "3.50"
    assert "8.0%" in ours


def test_both_files_restore_every_reading_in_order(tmp_path):
    readings = {
        point(): cpu(1.0, 2.0),
        point("harness", wheel_size=0): [reading(lateness_ms_p50=None, lateness_ms_p99=None)],
        point("wait", loop="uvloop", case="high", rate=FLOOD): cpu(3.0),
    }
    saved = measured(readings, failed=["anyio fell asleep"])
    save(tmp_path / "new" / "directory", saved)
    assert load(tmp_path / "new" / "directory") == saved
    document = json.loads((tmp_path / "new" / "directory" / "readings.json").read_text(encoding="utf-8"))
    assert document["machine"] == dataclasses.asdict(MACHINE)
    assert (document["command"], document["date"]) == (saved.command, saved.date)
    assert document["failed"] == ["anyio fell asleep"]
    assert [row["cpu_s_per_million"] for row in document["readings"]] == [1.0, 2.0, 5.0, 3.0]
    assert document["readings"][0] == {**dataclasses.asdict(point()), **dataclasses.asdict(cpu(1.0)[0])}


def test_readings_from_before_there_were_two_builds_load(tmp_path):
    # The fault: what was published can no longer be drawn.
    save(tmp_path, measured({point("wait"): cpu(1.0)}))
    kept = tmp_path / "readings.parquet"
    pq.write_table(pq.read_table(kept).drop_columns(["pure"]), kept)
    assert list(load(tmp_path).readings) == [point("wait", pure=False)]
