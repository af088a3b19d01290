"""The fold depends on its entries only: recorded logs give the same digests for ever, in any process.

A log of `logs` is never changed. A new level of the fold adds one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.state import replay
from tests.source_tree import ROOT

LOGS = Path(__file__).parent / "logs"
LEVELS = {
    "level-1.log": ("47664dbcd790aa55744211ac", "4befc5b78c9589ae6f068991"),
    "queues.log": ("d93bd801bdc4220e51b420c9", "b89b8ea4a2b81882019bfd50"),
}


@pytest.mark.parametrize(("name", "digests"), LEVELS.items())
def test_a_recorded_log_gives_its_digests_for_ever(name, digests):
    found = replay.fold(LOGS / name)
    assert (found["state"], found["running"]) == digests


def test_the_recorded_log_has_every_result_and_effect():
    found = replay.fold(LOGS / "level-1.log")["found"]
    assert {
        *("Submitted", "Signalled", "Ended", "Put", "Lent", "InLine", "Nothing", "Plain"),
        *("already-ended", "duplicate-id", "forgotten", "idempotency-mismatch", "lease-expired"),
        *("overloaded", "repeated", "unknown-lease", "unknown-operation", "unknown-writer"),
        *("ItemLent", "KeySignalled", "OperationEnded", "OperationSubmitted"),
        *("TakerLeft silent", "TakerLeft waited"),
    } <= set(found)


def test_the_log_of_queues_has_their_results_and_effects():
    found = replay.fold(LOGS / "queues.log")["found"]
    assert {"Extended", "Moved", "Put", "PutSome", "ItemHidden", "ItemLent", "LeaseExtended"} <= set(found)
    assert {"lease-expired", "overloaded", "unknown-lease"} <= set(found)


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
        [sys.executable, "-m", "tests.service.state.replay", LOGS / "level-1.log", *rest],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.returncode, run.stderr
    assert json.loads(run.stdout) == replay.fold(LOGS / "level-1.log")


def test_what_is_forbidden_raises():
    code = "import time, tests.service.state.replay as replay; replay.forbid(); time.monotonic_ns()"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "a fold reads no clock" in run.stderr
