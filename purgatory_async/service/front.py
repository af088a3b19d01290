"""What all connections of a server share: the application, the timer, and how long a client may take."""

from dataclasses import dataclass

from starlette.types import ASGIApp

from purgatory_async import Timer
from purgatory_async.service.logs import Log

__all__ = ["Deadlines", "ServerContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long a client may take, in seconds.

    Attributes:
        head: For a head, from accept or its first byte.
        body: For a body, from the end of its head.
        crowd: For the present answer, while more was sent behind its request than is kept.
        idle: Between two requests.
        stall: For reading something of an answer that does not leave.
        linger: For reading the last answer while its own request is still being sent.
    """

    head: float
    body: float
    crowd: float = 1.0
    idle: float = 75.0  # longer than the 60 after which most balancers give an idle connection up
    stall: float = 30.0
    linger: float = 2.0


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all connections of a server share.

    Attributes:
        app: What answers.
        timer: For the deadlines.
        deadlines: How long they are.
        log: For what goes wrong in the application.
    """

    app: ASGIApp
    timer: Timer
    deadlines: Deadlines
    log: Log
