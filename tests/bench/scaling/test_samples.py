"""Every sample does the same to every design, and leaves the waiting operations alone."""

import asyncio

import pytest

from bench.scaling import samples
from bench.scaling.floor import Floor
from bench.scaling.growth import COMPARED
from bench.scaling.samples import Scene, batches, churn, complete_all, expire

ALL = (*COMPARED, Floor)


def watched(monkeypatch, design):
    """The design with what was made, watched, completed and closed written down."""
    seen = {"watched": [], "keys": [], "closed": 0}

    class Seen(design):
        def __init__(self, clock):
            super().__init__(clock)
            watch = self.watch

            def watch_seen(operation, keys):
                seen["watched"].append(operation)
                seen["keys"].append(keys)
                return watch(operation, keys)

            self.watch = watch_seen

        def close(self):
            seen["closed"] += 1
            both = zip(seen["watched"], seen["keys"], strict=True)
            seen["left"] = [keys for operation, keys in both if not operation.ended]
            super().close()

    monkeypatch.setattr(samples, "SETTLE_S", 0)
    return Seen, seen


KEYS = [(f"order-{number}",) for number in range(20)]


def taken(monkeypatch, design, sample, *arguments, keys=KEYS, operations=600):
    """What a sample did, which is a figure, and closed what it had made."""
    seen_design, seen = watched(monkeypatch, design)
    assert asyncio.run(sample(Scene(seen_design, keys, operations, 1), *arguments)()) > 0
    assert seen["closed"] == 1
    return seen


@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
def test_a_sample_completes_what_it_adds_and_keeps_the_rest(monkeypatch, design):
    seen = taken(monkeypatch, design, churn)
    assert (len(seen["watched"]), sorted(seen["left"])) == (20 + 600, sorted(KEYS))
    seen = taken(monkeypatch, design, batches, (1, 86_400_000), operations=1_100)
    new = seen["watched"][20:]
    assert (len(new), len(seen["left"]), type(new[0]).expired) == (1_100, 20, 0)
    assert {operation.timeout_ms for operation in new} == {1, 86_400_000}
    assert all(operation.ended for operation in new)


@pytest.mark.parametrize("design", COMPARED, ids=lambda design: design.name)
def test_expire_waits_for_exactly_the_new_operations(monkeypatch, design):
    monkeypatch.setattr(samples, "FIRST_MS", 2)
    monkeypatch.setattr(samples, "SPREAD_MS", 3)
    seen = taken(monkeypatch, design, expire, operations=50)
    assert (type(seen["watched"][-1]).expired, len(seen["left"])) == (50, 20)


@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
@pytest.mark.parametrize(("watchers", "passes"), [(1, 30), (10, 3), (100, 1)])
def test_complete_all_repeats_until_it_makes_up_the_number(monkeypatch, design, watchers, passes):
    seen = taken(monkeypatch, design, complete_all, keys=[("order",)] * watchers, operations=30)
    assert (len(seen["watched"]), seen["left"]) == (watchers * passes, [])
