"""What the HTTP service holds, and how it behaves when its clients misbehave: ``python -m bench.service``.

The service is a process of its own, as its users start it; its clients are this process, and where only their number
of requests counts, wrk. A nginx with nchan stands beside it where that can do the same. Nothing passes or fails.
"""
