"""A tally prints counts, and whether the promise was kept."""

from collections import Counter

import pytest

from bench.measure.line import Verdict
from bench.patterns.race.fate import Fate
from bench.patterns.race.tally import Tally, heading


def tally(*, swallowed=0, ours=True, **fates):
    counted = Counter({Fate(name): count for name, count in fates.items()})
    return Tally.of(
        counted, contestant="a queue", moment="just then", loop="asyncio", swallowed=swallowed, ours=ours
    )


@pytest.mark.parametrize("fault", ["lost", "doubled", "swallowed"])
def test_one_fault_in_a_hundred_thousand_is_a_miss(fault):
    assert tally(delivered=99_999, **{fault: 1}).verdict is Verdict.MISSED


def test_delivered_or_returned_is_as_promised():
    assert tally(delivered=1, returned=2).verdict is Verdict.MET


def test_nothing_was_promised_for_the_others():
    assert tally(lost=5, ours=False).verdict is Verdict.SHOWN


def test_every_item_has_one_fate():
    assert tally(delivered=1, returned=2, lost=3, doubled=4, swallowed=5).rounds == 10


def test_a_tally_prints_named_counts_and_a_dash_for_none():
    row = tally(delivered=12_000, lost=500)
    assert " ".join(str(row).split()) == "a queue just then asyncio 12,500 12,000 - 500 - - MISSED"
    end_of_lost = heading().index("lost") + len("lost")
    assert str(row)[:end_of_lost].endswith(" 500")


def test_the_sum_of_tallies_has_the_sum_of_their_counts():
    both = Tally.sum_of([tally(delivered=1, lost=2), tally(delivered=3, swallowed=4)], "all together")
    assert (both.moment, both.rounds, both.delivered, both.lost, both.swallowed) == (
        "all together",
        6,
        4,
        2,
        4,
    )
    assert both.contestant == "a queue"
