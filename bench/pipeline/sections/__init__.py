"""The sections of ``python -m bench.pipeline``, one a module; `bench.table` has their order."""
