"""Conversations with the service, without I/O.

Each is a generator: it yields a `Request` to send or a `Pause` to sleep, and receives the outcome. The blocking and
the async client only carry these out; retries, polls and giving up are decided here, and tested without a socket.

A request that was never sent, or was refused with 429 or 503, may always be sent again. A request that the service may
have carried out is sent again only if it is idempotent (reading, cancelling, and submitting or taking, which have an
Idempotency-Key). A proxy's 502 or 504 counts as a lost connection.
"""

import json
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

from purgatory_async.client._bodies import with_plain_numbers
from purgatory_async.client._model import RequestRefused, ServiceUnreachable
from purgatory_async.clock import monotonic
from purgatory_async.durations import Duration, as_seconds

T = TypeVar("T")

TRY_LATER: Final = frozenset({429, 503})
"""Nothing was done; the same request may succeed after ``Retry-After``, unless an operator must act first."""
_FOR_AN_OPERATOR: Final = "upgrade-pending"
_NOT_MODIFIED: Final = 304
LOST_BY_A_PROXY: Final = frozenset({502, 504})
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}  # else a normalised path loses them


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """How a client waits and retries; its times are given as any `Duration`, and are seconds.

    Attributes:
        poll: The longest hold of one request; longer waits poll again. Stay below the limit of proxies.
        slack: How much longer than the poll an answer may take before the connection counts as broken.
        patience: How long to retry a request, from its first lost answer, 429 or 503.
        first_delay: Before the first retry; doubled after each, and half of it random.
        max_delay: The longest delay.
        clock: A monotonic clock.
        draw: Returns the next random fraction, from 0 to 1.

    >>> patient = Policy(patience="10m", poll="50s")
    >>> patient.patience, patient.poll, patient.slack
    (600.0, 50.0, 10.0)
    """

    poll: float
    slack: float
    patience: float
    first_delay: float
    max_delay: float
    clock: Callable[[], float]
    draw: Callable[[], float]

    def __init__(  # noqa: PLR0917 - in the order of the attributes
        self,
        poll: Duration = 25.0,
        slack: Duration = 10.0,
        patience: Duration = 30.0,
        first_delay: Duration = 0.1,
        max_delay: Duration = 5.0,
        clock: Callable[[], float] = monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        times = {"poll": poll, "slack": slack, "patience": patience}
        times |= {"first_delay": first_delay, "max_delay": max_delay}
        for name, value in times.items():
            object.__setattr__(self, name, as_seconds(name, value))
        object.__setattr__(self, "clock", clock)
        object.__setattr__(self, "draw", draw)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send.

    Attributes:
        method: HTTP's.
        path: Percent-encoded.
        query: Names and values, not encoded.
        body: The object to encode as JSON; None for no body.
        headers: Added to the headers of every request.
        held: How long the service may hold it, in seconds.
        twice_is_once: Whether it is idempotent.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    held: float = 0.0
    twice_is_once: bool = False

    def __post_init__(self) -> None:
        """Let the body have the numbers that JSON knows."""
        if self.body is not None:
            object.__setattr__(self, "body", with_plain_numbers(self.body))


@dataclass(frozen=True, slots=True)
class Pause:
    """A time to sleep, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the service or a proxy."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON, or as text if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Lost:
    """A request without an answer.

    Attributes:
        reason: The connection's error.
        sent: Whether the service may have carried out the request.
    """

    reason: str
    sent: bool


Step = Request | Pause
Talk = Generator[Step, Response | Lost | None, T]


def path(*segments: str) -> str:
    """Build a path of the service; each segment is encoded whole, slashes and dots included."""
    return "/v1/" + "/".join(_DOTS.get(segment) or quote(segment, safe="") for segment in segments)


def understood(answer: Response, read: Callable[[Any], T]) -> T:
    """Read an answer's document.

    Raises:
        RequestRefused: A purgatory service does not send such a document.
    """
    try:
        return read(answer.document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RequestRefused.not_understood(answer.status, answer.document) from error


def exchange(ask: Request | Callable[[float], Request], policy: Policy) -> Talk[Response]:
    """Send a request until it is answered; retry it only where that is safe.

    Args:
        ask: The request; or a function that makes one for each try. Its argument is how many seconds the try before
            lasted if it was lost, else 0.0.
        policy: When to give up.

    Returns:
        The answer: a success, or 304.

    Raises:
        RequestRefused: The answer is a problem.
        ServiceUnreachable: No answer came.
    """
    # Counted from the first failure: the service may hold an answer for longer than that.
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
            if answer.status < 300 or answer.status == _NOT_MODIFIED:  # noqa: PLR2004 - success
                return answer
            if answer.status < 400:  # noqa: PLR2004 - a redirection
                raise RequestRefused.not_understood(answer.status, answer.document)
            refused = RequestRefused.of(answer.status, answer.document)
            if answer.status not in TRY_LATER or refused.slug == _FOR_AN_OPERATOR:
                raise refused
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
