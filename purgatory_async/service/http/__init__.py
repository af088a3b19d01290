"""The wire: HTTP/1.1 connections, the heads and bodies that they read, and the answers that they write; and ASGI."""
