"""No verb of the core that runs leaves memory or references behind, whether it succeeds or fails."""

import sys

import pytest

from tests.native.leaks import KEY, ROUNDS, growth, leaking


def test_a_thousand_rounds_of_each_verb_leave_nothing() -> None:
    if sys.gettrace() is not None:
        pytest.skip("a tracer, as of coverage, keeps references of its own")
    assert leaking() == {}


def test_a_leak_is_seen() -> None:
    kept: list[object] = []
    assert growth(lambda: kept.append([]))["objects"] >= ROUNDS
    assert growth(lambda: kept.append(KEY))[f"references to {KEY!r}"] >= ROUNDS
