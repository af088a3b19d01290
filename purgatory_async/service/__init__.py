"""The purgatory as an HTTP service, for clients in any language.

`create_app` in `app` makes the ASGI application; `serve` in `server` runs it.
"""
