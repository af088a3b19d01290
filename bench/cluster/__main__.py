"""``python -m bench.cluster``, which `bench.table` describes."""

from bench.table import run

run("cluster")
