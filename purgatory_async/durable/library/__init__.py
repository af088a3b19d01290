"""The same without a second process: `Durable`, and what carries out its verbs."""
