"""The fold depends on its entries only: recorded logs give the same digests for ever, in any process.

A log of `logs` is never changed. A new level of the fold adds one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.shared import Effect
from tests.durable.fold import replay
from tests.source_tree import ROOT

LOGS = Path(__file__).parent / "logs"
LEVELS = {
    "level-1.log": ("498a04660d8df510816bb032", "a3b6eea2eed2cc96f5b0a5a3"),
    "queues.log": ("85cc35c8bd3816a34e9430d2", "445c4a152c1c89d208e7d87f"),
    "level-2.log": ("e7054ce287c54b556f3b0d07", "c00efb501d12bc6860f880b6"),
    "level-3.log": ("2135e6c0cf89ec7ebf0504eb", "b77a538ee3f0bdab9a8407cf"),
    "takes.log": ("c20b878751e3368e806d3065", "1910a70024654b9af14476fa"),
    "owners.log": ("5cb539812d5d08540d5c24cf", "355d79db74f6fb5ed4881fa9"),
}


@pytest.mark.parametrize(("name", "digests"), LEVELS.items())
def test_a_recorded_log_gives_its_digests_for_ever(name, digests):
    found = replay.fold(LOGS / name)
    assert (found["state"], found["running"]) == digests


def test_the_recorded_logs_have_every_result_and_effect():
    found = set[str]().union(*(replay.fold(LOGS / name)["found"] for name in LEVELS))
    kinds = {kind.__name__ for base in (results.Result, Effect) for kind in base.__subclasses__()}
    left = {"TakerLeft silent", "TakerLeft waited"}
    refusals = {*get_args(results.Refusal), "repeated", "unknown-writer"}
    assert found == (kinds | left | refusals) - {"Refused", "Dropped", "TakerLeft", "lower-level"}


@pytest.mark.parametrize(
    ("seed", "zone", "core", "rest"),
    [
        pytest.param("0", "UTC", "", (), id="no hash seed"),
        pytest.param("1", "America/St_Johns", "", ("forbid",), id="no clock and nothing random"),
        pytest.param("4294967295", "Pacific/Kiritimati", "1", ("forbid",), id="the same in pure Python"),
    ],
)
def test_another_process_folds_the_same(seed, zone, core, rest):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(ROOT)}
    if core:
        environment["PURGATORY_ASYNC_PURE"] = core
    run = subprocess.run(
        [sys.executable, "-m", "tests.durable.fold.replay", LOGS / "level-1.log", *rest],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.returncode, run.stderr
    assert json.loads(run.stdout) == replay.fold(LOGS / "level-1.log")


def test_what_is_forbidden_raises():
    code = "import time, tests.durable.fold.replay as replay; replay.forbid(); time.monotonic_ns()"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "a fold reads no clock" in run.stderr
