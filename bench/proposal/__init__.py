"""The proposal's benchmark: random arrivals and latencies, one timeout, every design and every peer side by side."""
