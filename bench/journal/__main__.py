"""``python -m bench.journal``, which `bench.table` describes."""

from bench.table import run

run("journal")
