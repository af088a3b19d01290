"""The sections of ``python -m bench.patterns``, one a module; `bench.table` has their order."""
