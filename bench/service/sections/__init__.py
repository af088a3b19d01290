"""The sections of ``python -m bench.service``, one a module; `bench.table` has their order."""
