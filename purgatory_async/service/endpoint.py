"""What an endpoint is: an async function from the service and a request to a reply, and who may call it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from starlette.types import Send

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
    """One method of one path.

    Attributes:
        serve: Answers, or raises a `Problem`.
        permission: What a token must allow; None where the path is open to all.
    """

    serve: Callable[[Service, Request], Awaitable[Reply]]
    permission: Permission | None
