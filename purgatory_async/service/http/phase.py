"""The states of a connection, and what moves it from one to the next.

                begin  request    upload  body       crowd    discard     turn  linger     close    lose
    head        .      answering  body    .          .        .           .     lingering  closing  closed
    body        .      .          .       answering  .        .           .     lingering  closing  closed
    answering   .      .          .       .          crowded  .           idle  lingering  closing  closed
    crowded     .      .          .       .          .        discarding  idle  lingering  .        closed
    discarding  .      .          .       .          .        .           .     lingering  .        closed
    idle        head   answering  body    .          .        .           .     lingering  closing  closed
    lingering   .      .          .       .          .        .           .     .          closing  closed
    closing     .      .          .       .          .        .           .     .          .        closed
    closed      .      .          .       .          .        .           .     .          .        .

`begin` is the first part of a head, `request` a whole head, `upload` one with a body, `body` the end of that body.
`crowd` means that too many bytes follow the request, `discard` that the answer was not ready in time to read them.
`turn` follows an answer after which the connection stays open. `linger` waits for the client to close, `close` for
written bytes to leave, and `lose` is the end: also when the client closes in any other phase.
"""

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """What a connection does now.

    Attributes:
        moves: Where each event leads; any other event is a fault of the connection.
        ready: Whether a request may begin.
        deaf: Whether what comes is thrown away.
    """

    moves: dict[str, "Phase"]
    ready: bool
    deaf: bool

    def after(self, event: str) -> "Phase":
        """Return the phase to which an event leads."""
        try:
            return self.moves[event]
        except KeyError:
            allowed = ", ".join(self.moves) or "nothing"
            raise RuntimeError(f"a connection that is {self} takes {allowed}, got {event}") from None

    HEAD = "reading a head"
    BODY = "reading a body"
    ANSWERING = "answering"
    CROWDED = "answering, and not reading"
    DISCARDING = "answering, and discarding input"
    IDLE = "idle"
    LINGERING = "lingering"
    CLOSING = "closing"
    CLOSED = "closed"


_ENDS: Final = {"linger": Phase.LINGERING, "close": Phase.CLOSING, "lose": Phase.CLOSED}
_REQUESTS: Final = {"request": Phase.ANSWERING, "upload": Phase.BODY}
TRANSITIONS: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.HEAD: {**_REQUESTS, **_ENDS},
    Phase.BODY: {"body": Phase.ANSWERING, **_ENDS},
    Phase.ANSWERING: {"crowd": Phase.CROWDED, "turn": Phase.IDLE, **_ENDS},
    Phase.CROWDED: {
        "discard": Phase.DISCARDING,
        "turn": Phase.IDLE,
        "linger": Phase.LINGERING,
        "lose": Phase.CLOSED,
    },
    Phase.DISCARDING: {"linger": Phase.LINGERING, "lose": Phase.CLOSED},
    Phase.IDLE: {"begin": Phase.HEAD, **_REQUESTS, **_ENDS},
    Phase.LINGERING: {"close": Phase.CLOSING, "lose": Phase.CLOSED},
    Phase.CLOSING: {"lose": Phase.CLOSED},
    Phase.CLOSED: {},
}
"""Each phase's events and where they lead."""

for _phase, _moves in TRANSITIONS.items():
    # Attributes: to look a member up in a dictionary takes longer than the rest of a move.
    _phase.moves = _moves
    _phase.ready = "request" in _moves
    _phase.deaf = _phase in {Phase.DISCARDING, Phase.LINGERING, Phase.CLOSING, Phase.CLOSED}
