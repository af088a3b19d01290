"""What can be set: names, bounds and sources of the settings."""
