"""How the price of an operation grows with what else waits: ``python -m bench.scaling``. Nothing passes or fails."""
