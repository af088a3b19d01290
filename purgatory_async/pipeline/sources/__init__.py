"""Journals as tables: what is there when a job begins, and what is added while a stream runs."""
