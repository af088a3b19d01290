"""Percentiles by narrowing ranges, against sorted lists."""

import random

from purgatory_async.pipeline.report.totals import nearest_ranks

SHARES = (1, 50, 95, 100)


def test_percentiles_are_those_of_sorted_lists(spark):
    # Steps wider than 2**14, so that a range is narrowed more than once; the names' values overlap.
    some = random.Random(1)
    sets = {
        "wide": [some.randrange(-(10**6), 10**12) for _ in range(300)],
        "close": [10**15 + some.randrange(40_000) for _ in range(300)],
        "one": [7],
        "equal": [10**15] * 5,
    }
    rows = [(name, value) for name, values in sets.items() for value in values]
    steps = {}
    for name, values in sets.items():
        halves = (sorted(values)[: len(values) // 2], sorted(values)[len(values) // 2 :])
        steps[name] = [(len(half), min(half), max(half)) for half in halves if half]
    found = nearest_ranks(spark.createDataFrame(rows, "name string, value long"), steps, SHARES)
    assert found == {
        name: {share: sorted(values)[-(-share * len(values) // 100) - 1] for share in SHARES}
        for name, values in sets.items()
    }
