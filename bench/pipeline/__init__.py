"""How fast the pipeline is, on a Spark of this machine's: ``python -m bench.pipeline``. Nothing passes or fails."""
