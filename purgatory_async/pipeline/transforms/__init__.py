"""Transformations of a journal's tables; they need a Spark session and read no file."""
