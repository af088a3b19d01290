"""The service as the endpoints have it: with the requests that wait over HTTP, and the other workers."""

import asyncio
import datetime as dt
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from purgatory_async import Timer
from purgatory_async.clock import monotonic
from purgatory_async.durable.backing import keep
from purgatory_async.durable.documents.messages import Draining
from purgatory_async.durable.links.link import Signer, random_signer
from purgatory_async.durable.links.links import Links
from purgatory_async.durable.links.secrets_file import read_secrets
from purgatory_async.durable.state import Guard
from purgatory_async.durable.stats.recent import Recent
from purgatory_async.durable.stats.survey import Survey
from purgatory_async.durable.urls import Store
from purgatory_async.durable.verbs.keeper import utc_now
from purgatory_async.service.backing import Checkpoints
from purgatory_async.service.gauges import show_gauges, show_limits, show_queues
from purgatory_async.service.held.held import Held
from purgatory_async.service.logs import Log
from purgatory_async.service.peers import Peers
from purgatory_async.service.service import Service
from purgatory_async.service.settings.settings import Settings, SettingsError
from purgatory_async.web.waiting import RETRY_SPREAD, shortened


class HttpService(Service):
    """A service that holds requests, knows its last minute, and can be drained.

    Args:
        settings: The limits.
        timer: For every wait; None makes one.
        wall_clock: Where log time begins, and the time of the stats.
        draw: Returns a random fraction from 0 to 1, for the jitter.

    Attributes:
        links: To its questions.
        held: What waits.
        peers: The other workers.
        recent, survey: The figures of the last minute, and what is pending.
        loaded: Set once the state is.
        leaving: Whether ``/readyz`` answers 503; all other requests are served until it drains.

    Raises:
        SettingsError: The journal's directory or the file of link secrets cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timer: Timer | None = None,
        wall_clock: Callable[[], dt.datetime] = utc_now,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.links: Final = Links(settings.public_url, partial(_signer_of, settings))
        super().__init__(settings, timer=timer, wall_clock=wall_clock)
        # Without another clock, the loop's: a timer asks at each reading which one that is.
        self.now: Final = monotonic if timer is None else timer.time
        self.wall_clock: Final = wall_clock
        state, timer = self.state, self.timer
        self.held: Final = Held(settings, state, timer, self._pace, self._count_undelivered)
        self.peers: Final = Peers(timer)
        # Events are on the clock of the log, which in memory is the timer's.
        self.recent: Final = Recent(
            timer, None if settings.store.in_memory else lambda: state.now_us() * 1000
        )
        self.survey: Final = Survey(state, self.waits, timer, self.recent, wall_clock, listed=self.listed)
        self.loaded: Final = asyncio.Event()
        self.leaving = False
        self._draw: Final = draw
        self._turn: Final = count()
        self.answering = self.held.requests
        self.hear = self.held.hear
        self.hear_by(self.held.requests, self.recent, self.held.feed)
        show_gauges(self.metrics, state, self.held)
        show_queues(self.metrics, state, self.survey.oldest)
        show_limits(self.metrics, state, self.waits, self.held)

    def __repr__(self) -> str:
        state = "draining" if self.draining else "serving"
        return f"<HttpService {state} pending={self.pending} held={self.held.count}>"

    def note_lag(self, seconds: float) -> None:
        """Count a delay of the event loop."""
        self.metrics.loop_lag.observe(seconds)
        self.recent.note_lag(seconds)

    def shortened(self, wait: float) -> float:
        """Return a wait in seconds, shortened by the next draw of the jitter."""
        return shortened(wait, self.settings.jitter, self._draw())

    def retry_after(self) -> int:
        """Return after how many seconds the next refused client may retry: each second of the spread in turn.

        Turns spread a herd evenly; random numbers do so only on average.
        """
        return next(self._turn) % RETRY_SPREAD + 1

    def drain(self) -> int:
        """Refuse new waits and end every held request with ``draining``; return how many. Idempotent.

        Signals, completions and reads go on.
        """
        self.leaving = True
        return super().drain() + self.held.close()

    def begin_drain(self, by: Guard) -> Draining:
        """Become not ready, serve for the drain delay, then `drain`; return what it ends. Raises what ``by`` does."""
        by.admit()
        held = self.held.count
        if not self.leaving:
            self.leaving = True
            if self.settings.drain_delay:
                self.timer.call_later(self.settings.drain_delay, self.drain)
            else:
                self.drain()
        return Draining(held, self.fold.operations.purgatory.pending)

    async def run(self, lines: Log | None = None) -> None:
        """Load the state from its store, if it has one, and keep it up to date until closed; raises as `State.run`.

        Args:
            lines: For failures of checkpoints; without it none are saved.
        """
        store = self.backing.store
        heard = Checkpoints(store, self.metrics, lines) if lines and isinstance(store, Store) else None
        await keep(self.backing, self.state, self.loaded.set, heard)

    def _look_again(self, *, lost: bool) -> None:
        self.held.look_again(lost=lost)


def _signer_of(settings: Settings) -> Signer:
    """Return what signs the links: the secrets of the file, or one of this run."""
    if settings.link_secret is None:
        return random_signer()
    try:
        return read_secrets(settings.link_secret)
    except ValueError as error:
        raise SettingsError(f"link_secret: {error}") from None
