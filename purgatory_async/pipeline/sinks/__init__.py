"""Where a stream's results go: each batch once, however often it is done."""
