"""All that waits for something over HTTP in one process, so that it can be told, counted and ended together."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatory_async import Timer
from purgatory_async.durable.fold.operations import OperationRescheduled
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.state import State
from purgatory_async.durable.waiting.feed import Feed
from purgatory_async.durable.waiting.followers import Followers
from purgatory_async.durable.waiting.pacing import Pace
from purgatory_async.durable.waiting.positions import Positions
from purgatory_async.durable.waiting.takers import OF_TAKERS
from purgatory_async.service.held.requests import HeldRequests
from purgatory_async.service.held.stream import Streams
from purgatory_async.service.held.takers import HeldTakers
from purgatory_async.service.http.unsent import Unsent
from purgatory_async.service.settings.settings import Settings

OVERDUE: Final = 1.0  # seconds after a taker's wait until the store is asked why the wait has not ended


class Held:
    """The requests of a service that wait, and the streams.

    Args:
        settings: The limits.
        state: What they wait for.
        timer: For every wait.
        pace: At which they are answered.
        on_undelivered: Called when a client left as it got its answer.

    Attributes:
        requests: Requests held for operations, keys and one-shot waits.
        followers: Requests held for signals after an index.
        takers: Requests held for items.
        positions: Requests held for a position that another worker answered with.
        feed, streams: The newest events, and their readers.
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
        self.followers: Final = Followers(state, timer, self.requests)
        takers = HeldRequests("takers", timer, pace, limit, on_undelivered)
        self.takers: Final = HeldTakers(state, timer, takers, overdue=overdue)
        self.positions: Final = Positions(timer, lambda: state.fold.position)
        self.feed: Final = Feed(timer, state)
        self.streams: Final = Streams(self.feed, timer)
        self.unsent: Final = Unsent(settings.max_unsent, timer)
        self._hearers: Final[dict[type[Effect], Callable[[Any], None]]] = {
            **dict.fromkeys(OF_TAKERS, self.takers.hear),
            OperationRescheduled: self.feed.rescheduled,
        }

    def __repr__(self) -> str:
        return f"<Held count={self.count}>"

    @property
    def count(self) -> int:
        """How many would be ended by `close`: the positions are soon reached, or not at all."""
        return self.requests.count + self.takers.held_requests.count + len(self.streams.running)

    def hear(self, effects: Sequence[Effect]) -> None:
        """Tell the effects of a step to all that hear of them, and to those that wait for its position. O(effects)."""
        for effect in effects:
            hear = self._hearers.get(type(effect))
            if hear is not None:
                hear(effect)
        if self.followers.waiting:
            self.followers.hear(effects)
        if self.positions.waiting:
            self.positions.look()

    def look_again(self, *, lost: bool) -> None:
        """Let all look at a state that was just loaded; fail those that read another history if that is ``lost``."""
        self.positions.restart()
        self.feed.restart()
        for requests in (self.requests, self.takers.held_requests):
            requests.look_again(lost=lost)

    def close(self) -> int:
        """End every request and stream with ``draining``; return how many. Idempotent."""
        return self.requests.close() + self.takers.held_requests.close() + self.streams.close()
