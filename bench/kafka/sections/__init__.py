"""The sections of ``python -m bench.kafka``, one a module; `bench.table` has their order."""
