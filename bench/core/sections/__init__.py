"""The sections of ``python -m bench.core``, one a module; `bench.table` has their order."""
