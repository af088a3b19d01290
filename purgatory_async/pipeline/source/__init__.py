"""Journals as tables: a snapshot at the start of a job, or a stream that follows a growing journal."""
