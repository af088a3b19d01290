"""A tally prints counts, and whether the promise was kept."""

from collections import Counter

import pytest

from tests.soak.race.fate import Fate
from tests.soak.race.tally import Tally, heading


def tally(*, swallowed=0, ours=True, **fates):
    counted = Counter({Fate(name): count for name, count in fates.items()})
    return Tally(
        contestant="a queue",
        moment="just then",
        loop="asyncio",
        fates=counted,
        swallowed=swallowed,
        ours=ours,
    )


@pytest.mark.parametrize("fault", ["lost", "doubled", "swallowed"])
def test_one_fault_in_a_hundred_thousand_is_a_miss(fault):
    found = tally(delivered=99_999, **{fault: 1})
    assert (found.faults, str(found).split()[-1]) == (1, "MISSED")


def test_delivered_or_returned_is_as_promised():
    assert str(tally(delivered=1, returned=2)).endswith("  met")
    assert str(tally(lost=5, ours=False)).endswith("  shown")


def test_a_tally_prints_named_counts_and_a_dash_for_none():
    row = tally(delivered=12_000, lost=500)
    assert " ".join(str(row).split()) == "a queue just then asyncio 12,500 12,000 - 500 - - MISSED"
    end_of_lost = heading().index("lost") + len("lost")
    assert str(row)[:end_of_lost].endswith(" 500")
