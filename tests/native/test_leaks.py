"""No verb of the core that runs leaves memory or references behind, whether it succeeds or fails."""

from tests.native.leaks import KEY, ROUNDS, growth, leaking


def test_a_thousand_rounds_of_each_verb_leave_nothing() -> None:
    assert leaking() == {}


def test_a_leak_is_seen() -> None:
    kept: list[object] = []
    assert growth(lambda: kept.append([]))["objects"] >= ROUNDS
    assert growth(lambda: kept.append(KEY))[f"references to {KEY!r}"] >= ROUNDS
