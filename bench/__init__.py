"""Measurements, run from the repository's top level: ``python -m bench.core``. Not part of the package."""
