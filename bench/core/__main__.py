"""``python -m bench.core``, which `bench.table` describes."""

from bench.table import run

run("core")
