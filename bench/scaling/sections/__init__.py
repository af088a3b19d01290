"""The sections of ``python -m bench.scaling``, one a module; `bench.table` has their order."""
