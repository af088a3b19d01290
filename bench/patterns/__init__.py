"""The patterns beside what one writes without them: ``python -m bench.patterns``.

As in `bench.core` nothing passes or fails: each figure stands beside another of the same run. What is counted, not
timed, stands beside what was promised.
"""
