"""Spark jobs over journals and workloads; no module outside this package imports Spark."""
