"""A long poll in somebody else's application."""
