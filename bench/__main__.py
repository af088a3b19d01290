"""``python -m bench``: list the benchmarks."""

from bench.table import BENCHMARKS

for name, benchmark in BENCHMARKS.items():
    print(f"python -m bench.{name:<10} {benchmark.purpose}")
