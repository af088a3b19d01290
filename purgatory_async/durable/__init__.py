"""What the service remembers: signals, operations with their needs, and queues."""
