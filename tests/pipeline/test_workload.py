"""The workload without Spark: its shares and means, and that a block depends on the seed and its number alone."""

from dataclasses import replace
from itertools import accumulate
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline.workload import (
    BLOCK,
    PROFILES,
    SCHEMA,
    Workload,
    block_digest,
    checksum,
)

SMALL = Workload(
    requests=2 * BLOCK + 5, rate=1e4, p50=0.02, p75=0.06, timeout=0.2, keys=3, key_space=1000, seed=1
)


def profile(name, **others):
    p50, p75 = PROFILES[name]
    return replace(SMALL, requests=1_000_000, p50=p50, p75=p75, **others)


def all_rows(workload):
    starts = [0, *accumulate(map(workload.gap_sum_ns, range(workload.blocks)))]
    return pa.Table.from_batches(workload.rows(block, starts[block]) for block in range(workload.blocks))


@pytest.mark.parametrize(("name", "rate"), [("low", 0.0787), ("high", 0.5)])
def test_a_million_operations_time_out_as_often_as_in_theory(name, rate):
    workload = profile(name)
    latencies = all_rows(workload)["latency_ns"].to_numpy()
    assert workload.expected_timeout_rate == pytest.approx(rate, abs=0.0001)
    assert (latencies >= workload.timeout_ns).mean() == pytest.approx(rate, abs=0.002)
    assert np.quantile(latencies, [0.5, 0.75]) / 1e9 == pytest.approx(PROFILES[name], rel=0.01)


def test_arrivals_are_random_and_as_many_a_second_as_asked_for():
    gaps = np.diff(all_rows(profile("low"))["submit_ns"].to_numpy())
    assert (gaps >= 0).all()
    # Mean and deviation of an exponential distribution are the same.
    assert (gaps.mean(), gaps.std()) == pytest.approx((1e5, 1e5), rel=0.005)


def test_operations_are_numbered_and_watch_distinct_keys():
    rows = all_rows(SMALL)
    assert rows.schema == SCHEMA
    assert rows["op_id"].to_pylist() == list(range(SMALL.requests))
    assert set(rows["timeout_ns"].to_pylist()) == {200_000_000}
    watched = rows["watch_keys"].to_pylist()
    assert all(len(keys) == len(set(keys)) for keys in watched)
    assert np.bincount([len(keys) for keys in watched])[1:] / len(watched) == pytest.approx(1 / 3, abs=0.005)
    assert {key for keys in watched for key in keys} == set(range(1000))


def test_the_first_gap_of_a_block_follows_the_block_before():
    # The fault: a block that starts at the sum without its own first gap has two arrivals at once at each seam.
    submitted = all_rows(SMALL)["submit_ns"].to_numpy()
    whole = np.concatenate([SMALL._gaps_ns(block) for block in range(SMALL.blocks)])
    assert submitted.tolist() == np.cumsum(whole).tolist()


@given(requests=st.integers(1, 3 * BLOCK), block=st.integers(0, 2))
def test_a_block_is_the_same_in_every_workload_that_has_it(requests, block):
    shorter, longer = replace(SMALL, requests=requests), replace(SMALL, requests=3 * BLOCK)
    if block < shorter.blocks:
        rows = shorter.rows(block, 7)
        assert rows == longer.rows(block, 7).slice(0, len(rows))
        assert rows["submit_ns"][-1].as_py() == 7 + shorter.gap_sum_ns(block)


@pytest.mark.parametrize(
    ("field", "value"),
    {
        "seed": 2,
        "rate": 9999,
        "p50": 0.021,
        "p75": 0.061,
        "timeout": 0.1,
        "keys": 2,
        "key_space": 1001,
        "requests": 2 * BLOCK + 6,
    }.items(),
)
def test_every_setting_counts_in_the_checksum(field, value):
    others = replace(SMALL, **{field: value})
    assert others.blocks == SMALL.blocks
    assert digests(others) != digests(SMALL)


def digests(workload):
    return checksum(block_digest(workload.rows(block, 0)) for block in range(workload.blocks))


@pytest.mark.parametrize("column", range(len(SCHEMA)), ids=SCHEMA.names)
def test_every_number_of_every_column_counts_in_a_digest(column):
    rows = SMALL.rows(2, 0)
    values = rows.column(column).to_pylist()
    values[-1] = [*values[-1], 1] if isinstance(values[-1], list) else values[-1] + 1
    changed = rows.set_column(column, SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type))
    assert block_digest(changed) != block_digest(rows)


def test_a_digest_separates_adjacent_key_lists():
    def rows(keys):
        return pa.RecordBatch.from_pylist(
            [{**dict.fromkeys(SCHEMA.names[:4], 0), "watch_keys": some} for some in keys], SCHEMA
        )

    assert block_digest(rows([[1, 2], [3]])) != block_digest(rows([[1], [2, 3]]))


def test_a_digest_reads_what_a_slice_of_a_table_shows():
    # The fault: the buffers under a slice are the whole's.
    rows = SMALL.rows(2, 0)
    longer = pa.concat_batches([SMALL.rows(1, 0), rows])
    assert block_digest(longer.slice(BLOCK)) == block_digest(rows)


def test_the_checksum_of_a_seed_stays_what_it_was():
    # Rows that change under the same settings need another GENERATOR_VERSION, and another sum here.
    assert digests(SMALL) == "2911908b6e86a80764f060c148d641ae"


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        *(("requests", bad) for bad in (0, -1, 10**11 + 1, 10**400)),
        *(("rate", bad) for bad in (0, -1, 1e10, nan, inf)),
        *(("p50", bad) for bad in (0, -1, nan, inf)),
        *(("p75", bad) for bad in (0.02, 0.01, 0, nan, inf)),
        *(("timeout", bad) for bad in (0, -1, 1e-10, nan, inf)),
        *(("keys", bad) for bad in (0, -1, 65)),
        *(("key_space", bad) for bad in (0, 2**31 + 1)),
        *(("seed", bad) for bad in (-1, 2**64)),
    ],
)
def test_a_setting_out_of_bounds_is_refused_with_its_value(field, bad):
    with pytest.raises(ValueError, match=f"^{field} must be .* got {str(bad)[:20]}"):
        replace(SMALL, **{field: bad})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": 3, "key_space": 2}, "^keys must be at most key_space, .* got 3 of 2$"),
        ({"p50": 1e-6, "p75": 10.0}, "^p75 must be closer to p50"),
        ({"requests": 10**11, "rate": 1e-6}, "^rate must be higher"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_the_widest_settings_that_are_allowed_fit_into_64_bits(seed):
    workload = replace(
        SMALL, requests=BLOCK, rate=1e-4, p50=1.0, p75=3.0, timeout=3e9, keys=64, key_space=64, seed=seed
    )
    rows = workload.rows(0, 0)
    assert min(rows["submit_ns"].to_numpy()) >= 0
    assert min(rows["latency_ns"].to_numpy()) > 0
