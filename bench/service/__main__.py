"""``python -m bench.service``, which `bench.table` describes."""

from bench.table import run

run("service")
