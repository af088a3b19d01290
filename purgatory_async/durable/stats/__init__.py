"""Counts and delays of the last minute, the survey and the search of what is pending."""
