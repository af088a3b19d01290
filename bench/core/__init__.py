"""The core's speed and memory, as ratios in one run on one machine: ``python -m bench.core``.

Nothing here passes or fails: each line stands beside its target and says whether it meets it.
"""
