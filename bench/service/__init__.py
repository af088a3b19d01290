"""What the HTTP service holds, and how it behaves when its clients misbehave: ``python -m bench.service``.

The service is a process of its own, as its users start it; its clients are this process. An nginx with nchan and a
handler written by hand stand beside it where they can do the same. Nothing passes or fails.
"""
