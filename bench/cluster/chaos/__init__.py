"""Chaos: clients of several workers on one store, whose workers and connections are killed all the time.

`load` does what clients do, `answers` keeps what they were answered, `witness` reads the log and folds it once more,
and `judge` compares the three.
"""
