"""``python -m bench.proposal``: its options, its output and files, and what a failure costs."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the command needs the extra spark")

from bench.proposal import command
from bench.proposal.files import load
from bench.proposal.options import CONTESTANTS, parser
from bench.proposal.point import FLOOD
from purgatory_async import compiled
from tests.bench.proposal.made import point, reading
from tests.source_tree import ROOT

SMALL = ("--quick", "--loops", "asyncio", "--cases", "low")


@pytest.fixture
def read(monkeypatch):
    """Readings out of the air; what a point does can be changed."""
    does = {}

    def read_point(point):
        return does.get(point.contestant, lambda: reading(rate_reached=20_000.0))()

    monkeypatch.setattr(command, "read", read_point)
    monkeypatch.setattr(command, "BUILDS", (False,))  # whatever is built here
    return does


def failing():
    raise subprocess.CalledProcessError(1, "python")


def test_every_point_is_printed_and_saved_with_its_machine(read, tmp_path, capsys):
    assert command.run([*SMALL, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "seed 1" in printed
    kept = load(tmp_path)
    assert {point.contestant for point in kept.readings} == set(CONTESTANTS)
    assert {point.rate for point in kept.readings} == {20_000, FLOOD}
    assert all(f"\n{point.name:<22} " in printed for point in kept.readings)
    assert kept.command == f"python -m bench.proposal {' '.join(SMALL)}"
    assert "numbers too small" in printed


def test_a_failing_reading_is_reported_and_others_are_kept(read, tmp_path, capsys):
    # The fault: an hour of readings is lost with one that fails.
    read["condition"] = failing
    assert command.run([*SMALL, "--out", str(tmp_path)]) == 1
    assert "NOT MEASURED: condition at 20,000/s on asyncio, low, failed, see above" in capsys.readouterr().out
    kept = load(tmp_path)
    assert {point.contestant for point in kept.readings} == {*CONTESTANTS} - {"condition"}
    assert len(kept.failed) == 2


def test_a_reading_knows_its_round_although_one_before_it_failed(read, tmp_path):
    # The fault: readings are counted, so that those after a failure seem to be of the round before.
    outcomes = iter([failing])

    def failing_once():
        return next(outcomes, reading)()

    read["call_later"] = failing_once
    command.run(["--rates", "10", "--repeats", "3", *SMALL[1:], "--out", str(tmp_path)])
    kept = load(tmp_path).readings
    rounds = {
        (point.contestant, point.rate): [one.round_number for one in of_point]
        for point, of_point in kept.items()
    }
    assert rounds["call_later", 10] == [2, 3]
    assert (rounds["delay_queue", 10], rounds["delay_queue", FLOOD]) == ([1, 2, 3], [4, 5, 6])


def test_what_was_read_is_kept_after_every_round(read, tmp_path):
    # The fault: who kills a run of hours loses all of it.
    kept = []

    def look():
        kept.append((tmp_path / "readings.parquet").exists())
        return reading(rate_reached=20_000.0)

    read["wait"] = look
    command.run([*SMALL, "--only", "wait", "--out", str(tmp_path)])
    assert kept == [False, True]


def test_after_an_interrupt_what_was_read_is_kept(read, tmp_path, capsys):
    answers = iter([reading(rate_reached=20_000.0)])

    def interrupted():
        for answer in answers:
            return answer
        raise KeyboardInterrupt

    read["wait"] = interrupted
    assert command.run([*SMALL, "--only", "wait", "--out", str(tmp_path)]) == 1
    assert "NOT MEASURED: interrupted" in capsys.readouterr().out
    assert [(point.contestant, point.rate) for point in load(tmp_path).readings] == [("wait", 20_000)]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--rates", "1000,fast"], "'fast'"),
        (["--wheel-sizes", "big"], "'big'"),
        (["--cases", "low,middle"], "'middle' is not among low, high"),
        (["--repeats", "0"], "'0'"),
        (["--callback", "--awaited"], "not allowed with"),
    ],
)
def test_a_bad_option_is_refused_by_its_value(flags, complaint, capsys):
    with pytest.raises(SystemExit):
        parser("").parse_args(flags)
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("pure", [False, True])
def test_a_point_runs_on_the_build_that_it_names(pure, monkeypatch):
    seen = {}

    def ran(command, **how):
        seen.update(how["env"])
        return subprocess.CompletedProcess(command, 0, json.dumps(dataclasses.asdict(reading())))

    monkeypatch.setattr(subprocess, "run", ran)
    assert command.read(point("wait", pure=pure)) == reading()
    assert (seen["PURGATORY_ASYNC_PURE"], seen["PATH"]) == ("01"[pure], os.environ["PATH"])


@pytest.mark.slow
def test_quick_runs_real_points_each_in_a_process_of_its_own(tmp_path):
    some = [word for name in ("harness", "purgatory_async", "wait") for word in ("--only", name)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.proposal", *SMALL, *some, "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "readings.json").read_text(encoding="utf-8"))["readings"]
    # Of the library's wheel there are two sizes, and of the library two builds; each at a rate and in the flood.
    assert len(rows) == (12 if compiled else 8)
    assert all(row["entries_left"] == 0 for row in rows)
    assert all(row["timeout_rate"] > 0 for row in rows if row["contestant"] != "harness")
