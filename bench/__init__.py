"""Measurements, run from the top level: ``python -m bench.core``, ``python -m bench.patterns``."""
