"""The types of ASGI 3: what an application is called with."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Application", "Message", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
