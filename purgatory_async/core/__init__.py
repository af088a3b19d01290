"""What an operation is and how it ends: synchronous, without a loop, a clock or a future."""
