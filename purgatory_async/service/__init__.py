"""The purgatory as an HTTP service, for clients in any language.

`serve` in `process.server` runs it on connections of its own. `create_app` in `app` makes an ASGI application of it,
for other servers, or to mount in another application.
"""
