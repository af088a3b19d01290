"""``python -m bench.scaling`` runs, and prints every section."""

import pytest

from bench.scaling.__main__ import FULL
from bench.scaling.sections import SECTIONS
from bench.scaling.sections.timeouts import TIMEOUTS_MS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    _, lines = run_quick("bench.scaling", SECTIONS, tmp_path, "--loops", "asyncio")
    grown = [line for line in lines if line["section"] != "millions"]
    assert all(set(line["ns"]) >= {"purgatory_async", "purging_wheel", "call_later"} for line in grown)
    assert {line["verdict"] for line in lines} == {"shown"}


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []


def test_the_prices_are_followed_as_far_as_was_asked():
    assert (FULL.pending[0], FULL.pending[-1]) == (1_000, 1_000_000)
    assert (FULL.keys[0], FULL.keys[-1]) == (1, 100)
    assert (FULL.millions[0], FULL.millions[-1]) == (1_000_000, 10_000_000)
    assert (FULL.watchers[0], FULL.watchers[-1]) == (1, 100_000)
    mixed = TIMEOUTS_MS["1 ms to 1 year"]
    assert min(mixed) == 1
    assert abs(max(mixed) / (365 * 86_400_000) - 1) < 0.001
