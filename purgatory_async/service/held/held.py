"""All that waits for something over HTTP in one process: requests, and streams of events."""

from collections.abc import Callable
from typing import Final

from purgatory_async import Timer
from purgatory_async.durable.state import State
from purgatory_async.durable.waiting.pacing import Pace
from purgatory_async.durable.waiting.waiting import OVERDUE, Waiting
from purgatory_async.service.held.requests import HeldRequests
from purgatory_async.service.held.stream import Streams
from purgatory_async.service.held.takers import HeldTakers
from purgatory_async.service.http.unsent import Unsent
from purgatory_async.service.settings.settings import Settings
from purgatory_async.service.visit import Visit


class Held(Waiting[Visit]):
    """The requests of a service that wait, and the streams.

    Args:
        settings: The limits.
        state: What they wait for.
        timer: For every wait.
        pace: At which they are answered.
        on_undelivered: Called when a client left as it got its answer.

    Attributes:
        requests: Requests held for operations, keys and one-shot waits.
        taking: Requests held for items.
        streams: The readers of the newest events.
        unsent: The bytes that clients have not taken.
    """

    def __init__(
        self,
        settings: Settings,
        state: State,
        timer: Timer,
        pace: Pace,
        on_undelivered: Callable[[], None],
    ) -> None:
        limit, overdue = settings.max_pending, None if settings.store.in_memory else OVERDUE
        self.requests: Final = HeldRequests("held", timer, pace, limit, on_undelivered)
        taking = HeldRequests("takers", timer, pace, limit, on_undelivered)
        self.taking: Final = HeldTakers(state, timer, taking, overdue=overdue)
        super().__init__(state, timer, self.requests, self.taking)
        self.streams: Final = Streams(self.feed, timer)
        self.unsent: Final = Unsent(settings.max_unsent, timer)

    @property
    def count(self) -> int:
        """How many would be ended by `close`."""
        return super().count + len(self.streams.running)

    def close(self) -> int:
        """End every request and stream with ``draining``; return how many. Idempotent."""
        return super().close() + self.streams.close()
