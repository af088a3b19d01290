"""The process of a point: its contestant, its load, and when it gives up."""

import pytest

pytest.importorskip("numpy", reason="the load needs the extra spark")

import asyncio
import dataclasses
import json
import sys

from bench.proposal import run
from bench.proposal.contestant import Tally
from tests.bench.proposal.made import point


def test_the_load_depends_only_on_the_seed():
    # The fault: contestants are compared under different loads.
    load = run.load(point())
    assert run.load(point("wait", loop="uvloop", wheel_size=20)) == load
    assert run.load(point(seed=2)) != load


@pytest.mark.parametrize(("case", "expected"), [("low", 0.079), ("high", 0.5)])
def test_arrivals_ascend_at_the_rate_of_the_case(case, expected):
    # More requests than the generator makes in a block: the fault is arrivals that start over with each.
    arrivals_ns, latencies_ms = run.load(point(case=case, rate=50_000, requests=70_000))
    assert len(arrivals_ns) == len(latencies_ms) == 70_000
    assert sorted(arrivals_ns) == arrivals_ns
    assert arrivals_ns[-1] == pytest.approx(70_000 / 50_000 * 1e9, rel=0.02)
    late = sum(latency >= 200 for latency in latencies_ms) / 70_000
    assert late == pytest.approx(expected, abs=0.01)


def test_requests_that_never_end_are_an_error_with_their_number(monkeypatch):
    # The fault: a contestant that loses a request hangs the run.
    monkeypatch.setattr(run, "GRACE_S", -1.0)
    tally = Tally()
    tally.submitted = 3
    with pytest.raises(TimeoutError, match="3 requests have not ended"):
        asyncio.run(run.until_ended(tally))


def test_a_reading_of_a_small_point_has_every_figure(monkeypatch):
    # In this process: what is for a process of its own stays off.
    monkeypatch.setattr(run.gc, "freeze", lambda: None)
    found = run.run_point(point("purgatory_async", requests=200, case="high"))
    assert found.rate_reached > 0
    assert found.timeout_rate > 0.3
    assert (found.early, found.entries_left) == (0, 0)
    assert found.peak_pending > 0
    assert not [name for name, value in dataclasses.asdict(found).items() if value is None]


def test_a_figure_of_one_build_is_not_taken_on_the_other(monkeypatch):
    # The fault: an extension that was built from other sources is passed over, and pure Python is called compiled.
    monkeypatch.setattr(run, "run_point", lambda _: pytest.fail("it ran"))
    wrong = point("wait", pure=run.compiled)
    monkeypatch.setattr(sys, "argv", ["run", json.dumps(dataclasses.asdict(wrong))])
    with pytest.raises(
        RuntimeError, match=f"{wrong.name} must not run on .*; set PURGATORY_ASYNC_PURE={wrong.pure:d}"
    ):
        run.main()
