"""Holding a request until the state shows something."""

from collections.abc import Callable, Hashable

from purgatory_async.service.api.request import Request
from purgatory_async.service.http_service import HttpService


async def hold(
    service: HttpService, request: Request, watched: Hashable, seconds: float, so: Callable[[], bool]
) -> bool:
    """Hold a request until the state shows something, or its wait is over and all entries until then are applied.

    Args:
        service: Has the state.
        request: The one to hold.
        watched: As of `HeldRequests.until`: when it happens, ``so`` is called.
        seconds: The length of the wait.
        so: Whether the state shows it.

    Returns:
        Whether the state shows it.

    Raises:
        Problem: As of `HeldRequests.until`.
        ClientLeft: The client left.
        LogUnavailable: The wait is over, but the store is away.
    """
    until = service.timer.time() + seconds
    shown = so()
    while not shown and (left := until - service.timer.time()) > 0:
        shown = await service.held.requests.until(watched, left, request.receive) and so()
        if not shown:
            # The state may have been loaded again meanwhile: then it shows too little until it has caught up.
            await service.state.caught_up()
            shown = so()
    return shown
