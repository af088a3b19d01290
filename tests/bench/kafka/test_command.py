"""``python -m bench.kafka`` runs, and prints every section."""

import pytest

from tests.bench.quick import run_quick

pytest.importorskip("aiokafka")
pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")
from bench.kafka.sections import SECTIONS, features
from bench.measure.line import Verdict


@pytest.mark.slow
def test_quick_finds_every_feature_at_our_broker(tmp_path):
    _, lines = run_quick("bench.kafka", SECTIONS, tmp_path)
    ours = [line for line in lines if line.get("broker") == "purgatory"]
    assert {line["client"] for line in ours} >= {"confluent", "kafka-python", "aiokafka"}
    assert {(line["passed"], len(line["failed"])) for line in ours} == {(1, 0)}
    assert {line["name"] for line in lines if "name" in line} >= {
        "process: purgatory",
        "in a test: purgatory",
        "produce: purgatory",
        "consume, long queue: purgatory",
        "one by one, p99: purgatory",
        "last answered: purgatory",
        "a member leaves: purgatory",
        "held produces, last answered",
    }


def test_a_feature_missed_at_our_broker_is_a_miss():
    found = features.Found(broker="purgatory", client="some", passed=1, failed=("gzip",))
    assert (found.verdict, str(found).split()[-1]) == (Verdict.MISSED, "gzip")
