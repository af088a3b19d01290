"""A price is followed from the smallest size; one that is not flat is explained."""

from bench.designs.ours import OurPurgatory
from bench.measure.collector import Collector
from bench.measure.line import Verdict
from bench.scaling.growth import COMPARED, Growth, followed
from bench.scaling.settings import FLAT


def growth(times, ns=100.0):
    names = [design.name for design in COMPARED]
    return Growth(
        name="watch, 1,000 pending",
        loop="asyncio",
        collector="gc on",
        ns=dict.fromkeys(names, ns),
        times={**dict.fromkeys(names, 9.0), OurPurgatory.name: times},
        explanation="it is far away",
    )


def test_flat_is_about_ours_alone_and_what_grows_is_explained():
    assert growth(FLAT).flat
    assert str(growth(FLAT)).endswith("  flat")
    assert str(growth(FLAT + 0.01)).endswith("  grows: it is far away")
    assert growth(9.0).verdict is Verdict.SHOWN


def test_sizes_alternate_and_compare_within_one_round():
    # The fault: medians over medians, where the machine slowed down between the sizes.
    order = []
    rounds = {0: iter([1.0, 10.0, 2.0]), 1: iter([3.0, 30.0, 6.0])}

    def sample_of(design, place):
        async def sample():
            order.append((design.name, place))
            return next(rounds[place])

        return sample

    small, large = followed(
        "watch, {} pending",
        [10, 1_000],
        sample_of,
        designs=[OurPurgatory],
        loop="asyncio",
        collector=Collector.OFF,
        rounds=3,
        explanation="",
    )
    assert order == [(OurPurgatory.name, 0), (OurPurgatory.name, 1)] * 3
    assert (small.name, large.name) == ("watch, 10 pending", "watch, 1,000 pending")
    assert (small.ns, large.ns) == ({OurPurgatory.name: 2.0}, {OurPurgatory.name: 6.0})
    assert (small.times, large.times) == ({OurPurgatory.name: 1.0}, {OurPurgatory.name: 3.0})
