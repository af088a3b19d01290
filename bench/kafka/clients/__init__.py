"""The checks of each client."""
