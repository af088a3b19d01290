"""Writers of a stream's results: each batch once, however often it is repeated."""
