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


def scene(design, *, standing=20, operations=600, keys=None):
    keys = [(f"order-{number}",) for number in range(standing)] if keys is None else keys
    return Scene(design, keys, operations, 1)


@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
def test_churn_replaces_each_completed_operation(monkeypatch, design):
    seen_design, seen = watched(monkeypatch, design)
    assert asyncio.run(churn(scene(seen_design))()) > 0
    assert len(seen["watched"]) == 20 + 600
    assert seen["closed"] == 1
    assert sorted(seen["left"]) == sorted(scene(design).keys)


@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
def test_batches_complete_all_new_operations(monkeypatch, design):
    seen_design, seen = watched(monkeypatch, design)
    assert asyncio.run(batches(scene(seen_design, operations=1_100), (1, 86_400_000))()) > 0
    new = seen["watched"][20:]
    assert len(new) == 1_100
    assert {operation.timeout_ms for operation in new} == {1, 86_400_000}
    assert all(operation.ended for operation in new)
    assert (len(seen["left"]), seen["closed"], type(new[0]).expired) == (20, 1, 0)


@pytest.mark.parametrize("design", COMPARED, ids=lambda design: design.name)
def test_expire_waits_for_exactly_the_new_operations(monkeypatch, design):
    monkeypatch.setattr(samples, "FIRST_MS", 2)
    monkeypatch.setattr(samples, "SPREAD_MS", 3)
    seen_design, seen = watched(monkeypatch, design)
    assert asyncio.run(expire(scene(seen_design, operations=50))()) > 0
    assert type(seen["watched"][-1]).expired == 50
    assert (len(seen["left"]), seen["closed"]) == (20, 1)


@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
@pytest.mark.parametrize(("watchers", "passes"), [(1, 30), (10, 3), (100, 1)])
def test_complete_all_repeats_until_it_makes_up_the_number(monkeypatch, design, watchers, passes):
    seen_design, seen = watched(monkeypatch, design)
    keys = [("order",)] * watchers
    assert asyncio.run(complete_all(scene(seen_design, keys=keys, operations=30))()) > 0
    assert len(seen["watched"]) == watchers * passes
    assert (seen["left"], seen["closed"]) == ([], 1)


def test_what_stands_there_is_the_same_for_every_design(monkeypatch):
    def timeouts(design):
        _, _, standing = asyncio.run(made(design))
        return [operation.timeout_ms for operation in standing]

    async def made(design):
        purgatory, *rest = scene(design).made()
        purgatory.close()
        return purgatory, *rest

    assert len({tuple(timeouts(design)) for design in ALL}) == 1


def test_the_floor_keeps_operations_and_lets_them_go():
    floor = Floor(None)
    first, second = Floor.operation(1), Floor.operation(1)
    floor.watch(first, ("a",))
    floor.watch(second, ("b",))
    assert (floor.pending, first.force_complete(), first.force_complete()) == (2, True, False)
    assert (floor.pending, floor.kept) == (1, 1)
