"""What waits in this process for something in the state: signals, items, positions, events."""
