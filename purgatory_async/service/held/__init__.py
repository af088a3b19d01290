"""Requests that wait, and what they wait for: operations, keys, items, places, events."""
