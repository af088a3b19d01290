"""The producer of the distributed purgatory's benchmark: its figures match the files it wrote."""

import time

import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline.live_feed import LiveFeed

RATE = 20_000


def read(directory):
    return pa.concat_tables(map(pq.read_table, sorted(directory.iterdir()))).to_pylist()


def test_its_counts_are_in_the_files_and_no_instant_is_ahead(tmp_path):
    # A record ahead of its time would make lags look shorter than they are.
    places = tmp_path / "operations", tmp_path / "signals"
    for place in places:
        place.mkdir()
    feed = LiveFeed(*places, seed=1)
    while not any(
        places[1].iterdir()
    ):  # the first signals come some hundredths of a second after their operations
        feed.pour(RATE)
    feed.pour(0)
    now_ns = time.time_ns()
    operations, signals = read(places[0]), read(places[1])
    assert len(operations) == len({row["op_id"] for row in operations}) == feed.submitted
    assert max(row["submit_ns"] for row in operations) <= now_ns
    assert max(row["at_ns"] for row in signals) <= now_ns
    submitted_ns = {key: row["submit_ns"] for row in operations for key in row["keys"]}
    assert all(submitted_ns[row["key"]] < row["at_ns"] for row in signals)
