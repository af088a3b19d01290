"""What all connections of a server share: the application, the timer and the deadlines of clients."""

from dataclasses import dataclass

from starlette.types import ASGIApp

from purgatory_async import Timer
from purgatory_async.service.logs import Log

__all__ = ["Deadlines", "ServerContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The deadlines of a client, in seconds.

    Attributes:
        head: For a head, from accept or its first byte.
        body: For a body, from the end of its head.
        crowd: For the present answer, once the pipelined bytes exceed their limit.
        idle: Between two requests.
        stall: For reading part of an answer.
        linger: For reading the last answer while still sending.
    """

    head: float
    body: float
    crowd: float = 1.0
    idle: float = 75.0  # most load balancers close idle connections after 60
    stall: float = 30.0
    linger: float = 2.0


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all connections of a server share; the log is for errors of the application."""

    app: ASGIApp
    timer: Timer
    deadlines: Deadlines
    log: Log
