"""Requests that are held for items: what is there at once is answered without a task."""

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatory_async import Timer
from purgatory_async.durable.documents.names import new_id
from purgatory_async.durable.fold.entries import WantItem
from purgatory_async.durable.fold.results import Nothing
from purgatory_async.durable.later import after
from purgatory_async.durable.state import Answer, State
from purgatory_async.durable.waiting.takers import Taken, Takers, leases_in, taken_by
from purgatory_async.service.held.given import Given
from purgatory_async.service.held.requests import HeldRequests
from purgatory_async.service.visit import Visit


class HeldTakers(Takers[Visit]):
    """The takers of a service; see `Takers`."""

    def __init__(
        self, state: State, timer: Timer, held_requests: HeldRequests, *, overdue: float | None
    ) -> None:
        super().__init__(state, timer, held_requests, overdue=overdue)
        self.held_requests: Final = held_requests

    def hold(self, visit: Visit, order: WantItem, then: Callable[[Taken], Given]) -> Given:
        """Lease the oldest items of a queue, as `take`; go on with ``then``.

        Raises:
            Problem: As of `take`; ``unauthorized`` or ``forbidden`` if the tokens have changed.
            ClientLeft: The client left; its items, if any, are back in their places.
        """
        self.held_requests.check_limit()
        order.lease_id = new_id()
        answer = self._state.propose(order, visit)
        if not isinstance(answer, Answer):
            return after(self._take(visit, order, answer), then)
        leases = leases_in(answer, order)
        if leases or isinstance(answer.result, Nothing):
            return then(taken_by(leases, order))

        def _go_on(_: bool) -> Given:
            return then(taken_by(self._woken(order)[0], order))

        return self.held_requests.hold(
            visit, order.lease_id, None, _go_on, otherwise=partial(self._leave, order)
        )
