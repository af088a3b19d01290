"""The service on a store that several workers share: what it costs, and what survives: ``python -m bench.cluster``.

Stores and workers are processes of their own, started here; what is not installed is left out, with a sentence.
"""
