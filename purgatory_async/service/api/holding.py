"""Holding a request until the state shows something."""

from collections.abc import Callable, Hashable

from purgatory_async.durable.later import after
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.requests import Otherwise, Then
from purgatory_async.service.http_service import HttpService


def hold(
    service: HttpService,
    request: Request,
    watched: Hashable,
    seconds: float,
    *,
    so: Callable[[], bool],
    then: Then,
    otherwise: Otherwise | None = None,
) -> Given:
    """Hold a request until something is so, which it is not yet, or its wait is over and all until then is applied.

    Args:
        service: Has the state.
        request: The one to hold.
        watched: As of `HeldRequests.hold`: tells when to look.
        seconds: How long to wait.
        so: Looks at the state.
        then: Goes on with the request; called with whether it is so.
        otherwise: As of `HeldRequests.hold`.

    Raises:
        Problem: As of `HeldRequests.hold`.
        ClientLeft: The client left.
        LogUnavailable: The wait is over, but the store is away.
    """
    if seconds <= 0:
        return then(False)
    wait = _Wait(service, request, watched, so=so, then=then, otherwise=otherwise)
    return wait.begin(seconds)


class _Wait:
    """What a request waits for. Its methods go on with it, so that nothing of it refers to itself."""

    __slots__ = ("_otherwise", "_request", "_service", "_so", "_then", "_until", "_watched")

    def __init__(
        self,
        service: HttpService,
        request: Request,
        watched: Hashable,
        *,
        so: Callable[[], bool],
        then: Then,
        otherwise: Otherwise | None,
    ) -> None:
        self._service = service
        self._request = request
        self._watched = watched
        self._until = 0.0
        self._so = so
        self._then = then
        self._otherwise = otherwise

    def begin(self, seconds: float) -> Given:
        """Hold the request for some seconds at most."""
        self._until = self._service.timer.time() + seconds
        return self._hold(seconds)

    def _hold(self, seconds: float) -> Given:
        return self._service.held.requests.hold(
            self._request, self._watched, seconds, self._ended, otherwise=self._otherwise
        )

    def _look(self, _: None) -> Given:
        """Go on if it is so, or the wait is over; hold the request further otherwise."""
        so = self._so()
        left = 0.0 if so else self._until - self._service.timer.time()
        return self._then(so) if left <= 0 else self._hold(left)

    def _ended(self, happened: bool) -> Given:
        if happened and self._so():
            return self._then(True)
        # The state may have been loaded again meanwhile: then it shows too little until it has caught up.
        return after(self._service.caught_up(), self._look)
