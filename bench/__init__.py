"""Measurements, run from the top level: ``python -m bench.core``, ``bench.proposal``, and others."""
