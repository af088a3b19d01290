"""A real service under the demo's load, then the report of its journal: the two counted the same."""

import json
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROMISED = re.compile(
    r"recorded in .*: operations (\d+), completed (\d+), expired (\d+), cancelled (\d+), failed (\d+), closed (\d+)"
)


def purgatory(*arguments):
    command = [sys.executable, "-m", "purgatory_async", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_report_has_exactly_the_counts_of_the_metrics(tmp_path):
    journal = tmp_path / "journal"
    said = purgatory("demo", "--seconds", 5, "--rate", 150, "--journal", journal)
    operations, completed, expired, cancelled, failed, closed = map(int, PROMISED.search(said).groups())
    assert min(completed, expired, cancelled, closed) > 0, (
        "a load that does not bring about every end shows less"
    )
    summary = json.loads(
        purgatory("pipeline", "report", "--journal", journal, "--out", tmp_path / "out").splitlines()[-1]
    )
    assert summary["operations"] == operations
    assert summary["outcomes"] == {
        "completed": completed,
        "expired": expired,
        "cancelled": cancelled,
        "failed": failed,
        "closed": closed,
        "pending": 0,
    }
    assert (summary["anomalies"], summary["quarantined"], summary["missing"]) == (0, 0, [])
