"""Millions pending: each contestant enters and completes all, beside both builds, where there is room."""

import asyncio
import json
import subprocess

import pytest

from bench.measure.line import Skipped
from bench.scaling import millions_probe
from bench.scaling.millions_probe import FUTURE, measured
from bench.scaling.sections import millions
from bench.scaling.settings import ScalingSettings

SETTINGS = ScalingSettings(millions=(50,), loops=("asyncio",))
FOUND = {"enter_ns": 1_000.0, "complete_ns": 500.0, "bytes": 200.0}


@pytest.fixture
def probed(monkeypatch):
    """The arguments and the build of each process that would be started."""
    seen = []

    def ran(command, **how):
        seen.append((command[3:], how["env"]["PURGATORY_ASYNC_PURE"]))
        return subprocess.CompletedProcess(command, 0, json.dumps(FOUND))

    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(millions, "BUILDS", (False, True))
    return seen


def test_a_peer_that_loses_one_gets_no_figure(monkeypatch):
    monkeypatch.setattr(millions_probe, "SETTLE_S", 0)
    watch, _, pending = asyncio.run(made())
    monkeypatch.setattr(millions_probe, "_future", lambda: (watch, lambda _: None, pending))
    with pytest.raises(AssertionError, match="pending"):
        asyncio.run(measured(FUTURE, 5, 1))


async def made():
    waiting = set()
    return lambda key, _: waiting.add(key), None, lambda: len(waiting)


def test_both_builds_and_every_peer_run_once_at_each_size(probed):
    rows = [str(row) for row in millions.lines(SETTINGS)]
    assert probed == [
        (["purgatory_async", "50", "asyncio", "1"], "0"),
        (["purgatory_async", "50", "asyncio", "1"], "1"),
        *(([peer, "50", "asyncio", "1"], "0") for peer in millions.PEERS),
    ]
    assert [row.partition("  ")[0] for row in rows[:3]] == [
        "purgatory_async, compiled",
        "purgatory_async, pure",
        "purging_wheel",
    ]


def test_a_size_that_memory_does_not_hold_is_left_out(probed, monkeypatch):
    # The fault: the system kills whatever it likes best.
    monkeypatch.setattr(millions, "available_bytes", lambda: 49 * millions.MOST_BYTES)
    [row] = millions.lines(SETTINGS)
    assert isinstance(row, Skipped)
    assert str(row).startswith("50 pending may need ")
    assert probed == []
