"""``python -m bench.proposal``, which `bench.table` describes."""

from bench.table import run

run("proposal")
