"""Requests that wait, and what they wait for: operations, keys, items, positions, events."""
