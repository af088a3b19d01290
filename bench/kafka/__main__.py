"""``python -m bench.kafka``, which `bench.table` describes."""

from bench.table import run

run("kafka")
