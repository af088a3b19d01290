"""The sections of ``python -m bench.cluster``, one a module; `bench.table` has their order."""
