"""``python -m bench.patterns``, which `bench.table` describes."""

from bench.table import run

run("patterns")
