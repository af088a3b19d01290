"""Conversations with the service, without I/O.

Each is a generator: it yields a `Request` to be sent or a `Pause` to be slept, and is sent what came of it. The two
clients, the blocking and the async one, only carry that out; what is retried, how long is polled and when to give up
is decided here, once, and tested without a socket.

The rules of trying again: what was never sent, or was refused with 503, may always be sent again; what may have been
carried out is sent again only if doing it twice is the same as once (reading, cancelling, and submitting, which has an
Idempotency-Key for this). A proxy that lost the service, 502 or 504, says no more than a lost connection.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

from purgatory_async.client._model import RequestRefused, ServiceUnreachable

__all__ = [
    "LOST_BY_A_PROXY",
    "Lost",
    "Pause",
    "Policy",
    "Request",
    "Response",
    "Talk",
    "exchange",
    "path",
    "understood",
]

T = TypeVar("T")

_SERVICE_UNAVAILABLE: Final = 503
_NOT_MODIFIED: Final = 304
LOST_BY_A_PROXY: Final = frozenset({502, 504})
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}  # else whoever normalises the path takes them for directories


@dataclass(frozen=True, slots=True)
class Policy:
    """How a client waits and tries again; times in seconds.

    Attributes:
        poll: How long one request is held at most; longer waits poll again. Below what proxies cut.
        slack: How much longer than the poll an answer may take before the connection counts as broken.
        patience: For how long a request is tried again, from when it first had no answer or a 503.
        first_delay: Before the first new try; doubled after each, and half of it random.
        max_delay: The longest delay.
        clock: A monotonic clock.
        draw: The next random fraction, from 0 to 1.
    """

    poll: float = 25.0
    slack: float = 10.0
    patience: float = 30.0
    first_delay: float = 0.1
    max_delay: float = 5.0
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class Request:
    """A request to be sent.

    Attributes:
        method: HTTP's.
        path: Percent-encoded.
        query: Names and values, not encoded.
        body: What becomes JSON; None for no body.
        headers: Beyond those of every request.
        held: For how long the service may hold it, in seconds.
        twice_is_once: Whether doing it twice is the same as once.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    held: float = 0.0
    twice_is_once: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A time to sleep, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """An answer that came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON; as text if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came.

    Attributes:
        reason: What the connection said.
        sent: Whether the request may have been carried out.
    """

    reason: str
    sent: bool


Step = Request | Pause
Talk = Generator[Step, Response | Lost | None, T]


def path(*segments: str) -> str:
    """A path of the service; each segment is encoded whole, slashes and dots included."""
    return "/v1/" + "/".join(_DOTS.get(segment) or quote(segment, safe="") for segment in segments)


def understood(answer: Response, read: Callable[[Any], T]) -> T:
    """Read an answer's document.

    Raises:
        RequestRefused: It is not what a service answers.
    """
    try:
        return read(answer.document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RequestRefused.not_understood(answer.status, answer.document) from error


def exchange(ask: Request | Callable[[float], Request], policy: Policy) -> Talk[Response]:
    """Send a request, again where that is safe, until it is answered.

    Args:
        ask: The request; or what makes it anew for each try, told for how many seconds the one before it was
            under way when it was lost, 0.0 if it was not.
        policy: When to give up.

    Returns:
        The answer, of a status that is no error.

    Raises:
        RequestRefused: The answer is a problem.
        ServiceUnreachable: None came.
    """
    # Counted from the first failure on: an answer may be held for longer than one is patient.
    give_up_at: float | None = None
    delay, lasted = policy.first_delay, 0.0
    while True:
        request = ask if isinstance(ask, Request) else ask(lasted)
        asked_at = policy.clock()
        answer = yield request
        assert answer is not None, "a request is answered, or lost"
        if isinstance(answer, Response) and answer.status in LOST_BY_A_PROXY:
            answer = Lost(f"a proxy answered {answer.status}", sent=True)
        at_least = 0.0
        if isinstance(answer, Response):
            if answer.status < 300 or answer.status == _NOT_MODIFIED:  # noqa: PLR2004 - what succeeded
                return answer
            if answer.status < 400:  # noqa: PLR2004 - a redirection
                raise RequestRefused.not_understood(answer.status, answer.document)
            if answer.status != _SERVICE_UNAVAILABLE:
                raise RequestRefused.of(answer.status, answer.document)
            at_least = _retry_after(answer)
        elif answer.sent and not request.twice_is_once:
            raise ServiceUnreachable(
                f"{request.method} {request.path} may or may not have been carried out: {answer.reason}"
            )
        now = policy.clock()
        give_up_at = now + policy.patience if give_up_at is None else give_up_at
        lasted = now - asked_at if isinstance(answer, Lost) and answer.sent else 0.0
        pause = max(at_least, delay * (1 + policy.draw()) / 2)
        if now + pause > give_up_at:
            if isinstance(answer, Response):
                raise RequestRefused.of(answer.status, answer.document)
            raise ServiceUnreachable(f"{request.method} {request.path} was not answered: {answer.reason}")
        yield Pause(pause)
        delay = min(delay * 2, policy.max_delay)


def _retry_after(answer: Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0  # noqa: PLR2004 - a week
