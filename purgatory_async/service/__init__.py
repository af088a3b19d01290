"""The purgatory as a service: operations held for clients in any language, over HTTP.

`create_app` in `app` makes the ASGI application; `serve` in `server` runs it in a process of its own.
"""
