"""What a connection and the application behind it know of each other.

The connection turns bytes into a request, and calls `Application.serve`. The application answers by the request's
`Wire`: at once, or when what the request waits for has come.
"""

from typing import Any, Protocol

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.contract.header_fields import Address, Head
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.visit import Visit


class Wire(Protocol):
    """Where a request came from, and where its answer goes.

    Attributes:
        address: Which it reached.
    """

    address: Address

    @property
    def closing(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    def answer(self, answer: Answer, stamp: bytes, now: float) -> None:
        """Send an answer; does nothing once the client has left.

        Args:
            answer: The answer.
            stamp: The lines of further fields.
            now: Seconds of the service's clock.
        """

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
    """A request, as its connection knows it."""

    __slots__ = ()

    wire: Wire

    def feed(self, content: bytes, *, whole: bool) -> None:
        """Give it a piece of its body; ``whole`` says that this was the last one. Here it is dropped."""


class Mounted(Protocol):
    """Answers requests, wherever they come from."""

    def request(self, head: Head, wire: Wire, /, root: str = "") -> Any:
        """Return the request of a head.

        Args:
            head: The request's head.
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
