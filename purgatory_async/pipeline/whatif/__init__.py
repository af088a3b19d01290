"""Other timeouts, ticks and wheels for the operations of a journal."""
