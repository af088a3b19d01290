"""Holds a request until the state shows what it waits for, or its wait is over."""

from typing import Any

from purgatory_async.durable.later import after
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait


class Awaited:
    """What a request waits for. Its methods go on with the request, so that nothing of it refers to itself.

    Args:
        service: Has the state.
        request: The one to hold.
        watched: As of `HeldRequests.hold`: tells when to look.
        wait: How long, before jitter.
    """

    __slots__ = ("_until", "request", "service", "wait", "watched")

    def __init__(
        self,
        service: HttpService,
        request: Request,
        watched: Any,
        wait: Wait,
    ) -> None:
        self.service = service
        self.request = request
        self.watched = watched
        self.wait = wait

    def look(self) -> Given | None:
        """Go on if the state shows it now; None otherwise."""
        raise NotImplementedError(f"{type(self).__name__} must look at the state")

    def over(self) -> Given:
        """Go on without it: the wait is over, and all until then is applied."""
        raise NotImplementedError(f"{type(self).__name__} must have an end")

    def refused(self, error: Exception) -> Given | None:
        """Go on although the request may not be held any longer; None to raise why."""
        del error
        return None

    def begin(self, _: object = None) -> Given:
        """Go on now, or hold the request.

        Raises:
            Problem: As of `HeldRequests.hold`.
            ClientLeft: The client left.
            LogUnavailable: The wait is over, but the store is away.
        """
        given = self.look()
        if given is not None:
            return given
        seconds = self.service.shortened(self.wait.seconds)
        if seconds <= 0:
            return self.over()
        self._until = self.service.timer.time() + seconds
        return self._hold(seconds)

    def _hold(self, seconds: float) -> Given:
        return self.service.held.requests.hold(
            self.request, self.watched, seconds, self._ended, otherwise=self.refused
        )

    def _ended(self, happened: bool) -> Given:
        given = self.look() if happened else None
        # The state may have been loaded again meanwhile: then it shows too little until it has caught up.
        return after(self.service.caught_up(), self._look_again) if given is None else given

    def _look_again(self, _: object) -> Given:
        given = self.look()
        if given is not None:
            return given
        left = self._until - self.service.timer.time()
        return self.over() if left <= 0 else self._hold(left)
