"""Holding a request until the state shows something."""

from collections.abc import Callable, Hashable

from purgatory_async.service.api.request import Request
from purgatory_async.service.service import Service


async def hold(
    service: Service, request: Request, watched: Hashable, seconds: float, so: Callable[[], bool]
) -> bool:
    """Hold a request until something is so, or its wait is over and all is applied that was so by then.

    Args:
        service: Has the state.
        request: The one to hold.
        watched: As of `HeldRequests.until`: tells when to look.
        seconds: Of the wait.
        so: Looks at the state.

    Returns:
        Whether it is so.

    Raises:
        Problem: As of `HeldRequests.until`.
        ClientLeft: The client left.
        LogUnavailable: The wait is over, but the store is away.
    """
    until = service.timer.time() + seconds
    shown = so()
    while not shown and (left := until - service.timer.time()) > 0:
        shown = await service.held_requests.until(watched, left, request.receive) and so()
        if not shown:
            # The state may have been loaded again meanwhile: then it shows too little until it has caught up.
            await service.state.caught_up()
            shown = so()
    return shown
