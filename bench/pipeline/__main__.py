"""``python -m bench.pipeline``, which `bench.table` describes."""

from bench.table import run

run("pipeline")
