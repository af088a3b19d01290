"""An endpoint: an async function from the service and a request to a reply, with its permission and types."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from starlette.types import Send

from purgatory_async.service.problems import Kind
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service

__all__ = ["Endpoint", "Permission", "Reply"]


class Permission(StrEnum):
    """The scopes of a token; `ADMIN` includes all others."""

    READ = "read"
    WAIT = "wait"
    SIGNAL = "signal"
    ADMIN = "admin"


class Reply(Protocol):
    """A complete answer, or a stream."""

    async def send_to(self, send: Send, *, head_only: bool = False) -> None:
        """Send it; ``head_only`` omits the body, as for HEAD."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path, described for `openapi`.

    Attributes:
        serve: Answers, or raises a `Problem`. Its docstring after the path is the summary.
        permission: The scope a token needs; None if the path is open.
        answers: By status: a struct, a media type, or None for no body.
        query: Its query parameters.
        headers: The request headers that it reads.
        body: The struct of the body; None if it takes none.
        needs_body: Whether the body is required.
        problems: Beyond those of every request of its kind.
    """

    serve: Callable[[Service, Request], Awaitable[Reply]]
    permission: Permission | None
    answers: Mapping[int, type[Struct] | str | None]
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    body: type[Struct] | None = None
    needs_body: bool = False
    problems: tuple[Kind, ...] = ()
