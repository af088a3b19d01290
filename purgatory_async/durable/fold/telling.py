"""Tells queues what happens to operations: each gets an item in the same step.

A submission may be refused for want of room, an end never is. What ends with one cause is put once all of it has
ended, so that the order does not depend on how the ends were found.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from msgspec import UnsetType

from purgatory_async.durable.documents import State
from purgatory_async.durable.fold.promises import Promise, end_item, submit_item
from purgatory_async.durable.fold.queues import Queues

MAX_BATCH: Final = 1_000
"""The most items of one entry; items that tell an end are behind them in their step."""


class Told(Protocol):
    """An operation, as the queues hear of it."""

    id: str
    owner: str | None
    position: int
    promise: Promise | None

    @property
    def state(self) -> State:
        """``pending``, or how it ended."""
        ...


class Telling:
    """Tells the submissions and the ends of operations.

    Args:
        queues: The queues that may hear of operations.

    Attributes:
        untold: The operations that have ended in this step, and whose ends have yet to be told.
    """

    __slots__ = ("_queues", "untold")

    def __init__(self, queues: Queues) -> None:
        self.untold: list[Told] = []
        self._queues: Final = queues

    def __repr__(self) -> str:
        return f"<Telling untold={len(self.untold)}>"

    def submitted(self, operation: Told) -> None:
        """Tell a submission, if it names a queue for that. O(log items of the queue)."""
        promise = operation.promise
        if promise is not None and not isinstance(promise.announce, UnsetType):
            self._queues.tell(promise.announce, submit_item(operation.id), operation.owner)

    def take_back(self, operation: Told) -> bool:
        """Let a submission be as if it had not been told; return whether that can be. O(items of the queue)."""
        promise = operation.promise
        if promise is None or isinstance(promise.announce, UnsetType):
            return True
        queue = self._queues.by_name.get(promise.announce)
        if queue is None or not queue.take_back(operation.position):
            return False
        self._queues.kept -= 1
        self._queues.forget_idle(queue)
        return True

    def ended(self, operation: Told) -> None:
        """Note an end, if its operation names a queue for it. O(1)."""
        promise = operation.promise
        if promise is not None and not isinstance(promise.deliver, UnsetType):
            self.untold.append(operation)

    def ends(self) -> None:
        """Tell the ends that were noted. O(ends)."""
        for _ in self.each_end():
            pass

    def each_end(self) -> Iterator[None]:
        """Do as `ends`, with a break after each."""
        untold, self.untold = self.untold, []
        for operation in untold:
            promise = operation.promise
            assert promise is not None, f"{operation!r} must name a queue for its end"
            assert isinstance(promise.deliver, str), f"{operation!r} must name a queue for its end"
            item = end_item(operation.id, operation.state)
            self._queues.tell(promise.deliver, item, operation.owner, operation.position + MAX_BATCH)
            yield
