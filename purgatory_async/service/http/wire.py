"""What a connection and the application behind it know of each other.

The connection turns bytes into a request, and calls `Application.serve`. The application answers by the request's
`Wire`: at once, or when what the request waits for has come.
"""

from typing import Any, Final, Protocol

from purgatory_async.service.contract.header_fields import Fields
from purgatory_async.service.contract.problems import Problem
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.http.head import Head
from purgatory_async.service.visit import Server, Visit

Address = tuple[str, int | None] | None
"""The address that a connection reached, a Unix socket's path included; None if it is not known."""

_NO_HEAD: Final = ("", b"", b"", "", Fields())


class Wire(Protocol):
    """Where a request came from, and where its answer goes."""

    @property
    def closing(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    def answer(self, answer: Answer, stamp: bytes) -> None:
        """Send an answer, with the lines of further fields; does nothing once the client has left."""

    def await_body(self) -> None:
        """Let the client send a body that it holds back until its head was seen."""

    async def open(self, lines: bytes) -> None:
        """Begin an answer of unknown length, 200 with these fields, once the client has room.

        Raises:
            ConnectionError: The client has left; also from `send` and `end`.
        """

    async def send(self, piece: bytes) -> None:
        """Send a piece of it, once the client has room."""

    async def end(self) -> None:
        """End it."""

    def cut(self) -> None:
        """Abort, so that the client does not take a partial answer as complete."""


class Asked(Visit):
    """A request, as its connection knows it.

    Args:
        server: Answers it.
        wire: Takes its answer.
        head: None if it is malformed.
        began: When the head was complete, in seconds of the service's clock.
        held: How many requests are held, by route.

    Attributes:
        query_string: The text after the question mark.
        version: Of HTTP: ``1.0`` or ``1.1``.
    """

    __slots__ = ("query_string", "version", "wire")

    def __init__(
        self, server: Server, wire: Wire, head: Head | None, *, began: float, held: dict[str, int]
    ) -> None:
        method, path, self.query_string, self.version, fields = _NO_HEAD if head is None else head[:5]
        super().__init__(server, method, path, fields, began=began, held=held)
        self.wire = wire

    @property
    def left(self) -> bool:
        """Whether its client has left, also if that was seen only now."""
        return self.gone or self.wire.closing

    def feed(self, content: bytes, *, whole: bool) -> None:
        """Give it a piece of its body; ``whole`` says that this was the last one. Here it is dropped."""


class Mounted(Protocol):
    """Answers requests, wherever they come from."""

    def request(self, head: Head | None, address: Address, wire: Wire, /, *, root: str = "") -> Any:
        """Return the request of a head; None if that is malformed, so that it can only be refused.

        Args:
            head: The request's head.
            address: Which the connection reached.
            wire: Takes the answer.
            root: Where the application is mounted, percent-encoded.
        """
        ...

    def serve(self, request: Any, /) -> None:
        """Answer a request by its wire, at once or later."""


class Application(Mounted, Protocol):
    """Answers requests, also such as their connections refuse."""

    def refuse(self, request: Any, problem: Problem, /) -> tuple[Answer, bytes]:
        """Count a refusal of the connection's own; return the answer, and the lines of further fields."""
        ...
