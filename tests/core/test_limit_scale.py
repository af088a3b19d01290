"""`check_and_complete(key, limit=...)` on a key that many watch: what it passes, and in which order."""

import pytest

from purgatory_async import DelayedOperation, Outcome
from tests.core.recording import Switch
from tests.core.test_limit import asked, watch


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def switch() -> Switch:
    """Off at first."""
    return Switch()


def test_one_taker_after_another_passes_few_that_left(purgatory, log, switch):
    passed: list[object] = []

    class Places(dict[DelayedOperation[None], None]):
        """As a dict: its iteration passes the places of those that have left, too."""

        def __init__(self, watchers):
            super().__init__(dict.fromkeys(watchers))
            self.places = list(watchers)

        def __iter__(self):
            for place in self.places:
                passed.append(place)
                if place in self:
                    yield place

    watch(purgatory, log, ["never"], None, keys=("k", "other"))
    operations = watch(purgatory, log, map(str, range(1000)), switch)
    purgatory._watchers["k"] = Places(list(purgatory.operations("k")))
    switch.on = True
    for operation in operations:
        assert purgatory.check_and_complete("k", limit=1) == 1
        assert operation.outcome is Outcome.COMPLETED
    assert len(passed) <= 4 * len(operations)
    purgatory.check_invariants()
    purgatory.cancel_for_key("k")


@pytest.mark.parametrize("keys", [("k",), ("k", "l")], ids=["one key", "two keys"])
def test_a_long_list_stays_in_order_among_checks_with_a_limit(keys, purgatory, log, switch):
    operations = watch(purgatory, log, map(str, range(1500)), switch, keys)
    switch.on = True
    assert purgatory.check_and_complete("k", limit=3) == 3
    switch.on = False
    operations += watch(purgatory, log, map(str, range(1500, 1600)), switch, keys)
    operations[100].cancel()
    for key in keys:
        assert list(purgatory.operations(key)) == operations[3:100] + operations[101:]
    purgatory.check_invariants()
    switch.on = True
    assert [purgatory.check_and_complete(keys[-1], limit=limit) for limit in (1, 500, None)] == [1, 500, 1095]
    assert asked(log) == [str(number) for number in range(3, 1600) if number != 100]
