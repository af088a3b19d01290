"""What an endpoint is: an async function from the service and a request to a reply, and who may call it."""

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
    """The scopes that a token may carry; `ADMIN` stands for all of them."""

    READ = "read"
    WAIT = "wait"
    SIGNAL = "signal"
    ADMIN = "admin"


class Reply(Protocol):
    """What goes back: a whole answer, or a stream."""

    async def send_to(self, send: Send, *, head_only: bool = False) -> None:
        """Write it out.

        Args:
            send: The request's.
            head_only: Leave the body out, as for HEAD.
        """


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path, and what `openapi` tells of it.

    Attributes:
        serve: Answers, or raises a `Problem`. The first sentence of its docstring, after the path, is the summary.
        permission: What a token must allow; None where the path is open to all.
        answers: What it answers without a problem, by status: a struct, a media type, or None for no body.
        query: The names of its query parameters.
        headers: The names of the request headers that it reads.
        body: The struct of the body; None if it takes none.
        needs_body: Whether a body must be there.
        problems: What can be wrong beyond what can be with every request of its kind.
    """

    serve: Callable[[Service, Request], Awaitable[Reply]]
    permission: Permission | None
    answers: Mapping[int, type[Struct] | str | None]
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    body: type[Struct] | None = None
    needs_body: bool = False
    problems: tuple[Kind, ...] = ()
