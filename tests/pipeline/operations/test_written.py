"""Operations as files: what is there when a bucket was done once, twice, or had none."""

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal, gathered
from purgatory_async.pipeline.operations.pairing import Pairing
from purgatory_async.pipeline.operations.tables import write_bucket
from tests.pipeline.journals import MS, Node


def pairing_of(node, bucket):
    records = pa.Table.from_batches(record_batches(node.records), arrow_schema()).select(DEAL_READ)
    dealt = pa.Table.from_batches(deal(records.to_batches(), 1), DEALT)
    return Pairing.of(*gathered(dealt), bucket)


def test_a_repeated_bucket_replaces_its_file_alone(tmp_path):
    one, other, ghost = Node(node="n1"), Node(node="n2"), Node(node="n3")
    one.submit("op", 0, keys=("a", "b"))
    one.outcome("op", 5 * MS, latency=5 * MS)
    other.submit("op", 0)
    ghost.outcome("op", 0)
    pairings = [pairing_of(node, bucket) for bucket, node in enumerate((one, other, ghost))]
    for pairing in (*pairings, pairings[0]):
        assert write_bucket(tmp_path, pairing).equals(pairing.operations())
    assert {path.name for path in tmp_path.iterdir()} == {"part-00000.parquet", "part-00001.parquet"}
    found = pq.read_table(tmp_path).sort_by("node")
    assert found.equals(pa.concat_tables(pairing.operations() for pairing in pairings[:2]))
