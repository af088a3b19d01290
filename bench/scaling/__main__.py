"""``python -m bench.scaling``, which `bench.table` describes."""

from bench.table import run

run("scaling")
