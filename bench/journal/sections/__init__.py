"""The sections of ``python -m bench.journal``, one a module; `bench.table` has their order."""
