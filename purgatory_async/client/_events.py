"""Read ``/v1/events``, a stream of server-sent events, over connections that break, without I/O."""

from typing import Final

from purgatory_async.client._event_lines import EventLines
from purgatory_async.client._model import RequestRefused, ServiceUnreachable
from purgatory_async.client._talk import LOST_BY_A_PROXY, TRY_LATER, Policy, Response, path

EVENTS: Final = path("events")
EVENT_STREAM: Final = "text/event-stream"
SILENCE: Final = 45.0  # seconds; the service sends a line every fifteen


class EventReader(EventLines):
    """The position in the stream, over all connections.

    Args:
        after: The id of the last event known; None for events from now on.
        policy: How to retry a connection.

    Raises:
        ValueError: ``after`` cannot be an id.
    """

    def __init__(self, after: str | None, policy: Policy) -> None:
        super().__init__(after)
        self._policy = policy
        self._delay = policy.first_delay
        self._give_up_at: float | None = None  # None while connected

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request for the stream, from the current position."""
        return {"Accept": EVENT_STREAM} | ({} if self.last is None else {"Last-Event-ID": self.last})

    def begin(self, status: int, media_type: str, body: bytes) -> None:
        """Check the answer to a request for the stream.

        Args:
            status: HTTP's.
            media_type: The answer's ``Content-Type``, with its parameters; empty if it has none.
            body: The body of an error; a stream's is read line by line.

        Raises:
            RequestRefused: A retry does not help, or the answer is not a stream of events.
        """
        self.restart()
        if status in TRY_LATER:  # it may start or stop, or the token is at its rate
            self.lost("the service takes no readers")
        elif status in LOST_BY_A_PROXY:
            self.lost(f"a proxy answered {status}")
        elif status >= 400:  # noqa: PLR2004 - HTTP's first error
            raise RequestRefused.of(status, Response(status, {}, body).document)
        elif status != 200:  # noqa: PLR2004 - a stream's only status
            raise RequestRefused.not_understood(status, Response(status, {}, body).document)
        elif media_type.partition(";")[0].strip().lower() != EVENT_STREAM:
            # Else the client would read a page to its end, again and again.
            raise RequestRefused.not_understood(
                status, f"it is {media_type or 'of no type'}, not {EVENT_STREAM}"
            )

    def lost(self, reason: str) -> None:
        """Note a broken connection.

        Raises:
            ServiceUnreachable: It has been broken for longer than the policy's patience.
        """
        now = self._policy.clock()
        # Counted from the loss: the stream may have been silent for longer than that.
        if self._give_up_at is None:
            self._give_up_at = now + self._policy.patience
        elif now > self._give_up_at:
            raise ServiceUnreachable(f"the event stream was not answered: {reason}")

    def pause(self) -> float:
        """Return how long to wait before the next connection, in seconds."""
        delay, self._delay = self._delay, min(self._delay * 2, self._policy.max_delay)
        return delay * (1 + self._policy.draw()) / 2

    def _alive(self) -> None:
        self._delay = self._policy.first_delay
        self._give_up_at = None
