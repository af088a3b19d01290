"""What carries the verbs of `AsyncVerbs` out: a conversation with a service, or a state in this process."""

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast

from purgatory_async.client._model import Event, KeyState, Lease, Link, Loan, Operation, Queue, QueuedItem
from purgatory_async.client._signals import SignalReader
from purgatory_async.durations import Duration

T = TypeVar("T")

Page = Awaitable[tuple[list[T], str | None]]
"""The elements of a page, and the cursor of the next; None after the last."""


class Backend(Protocol):
    """The verbs with their arguments in order; a ``body`` is one of `_bodies.asked`, a ``lease`` its id."""

    def submit(self, body: Mapping[str, Any], operation_id: str | None = None) -> Awaitable[Operation]:
        """Submit an operation; without an id it gets one."""
        ...

    def attach(self, operation_id: str, body: Mapping[str, Any]) -> Awaitable[Operation]:
        """Submit an operation, or attach to the equal one."""
        ...

    def ask(self, operation_id: str, body: Mapping[str, Any]) -> Awaitable[Operation]:
        """Attach to an operation until it has ended."""
        ...

    def status(self, operation_id: str, *, full: bool = False) -> Awaitable[Operation]:
        """Show an operation."""
        ...

    def follow(self, operation_id: str, timeout: Duration | None) -> Awaitable[Operation]:
        """Wait until an operation ends, or the timeout expires."""
        ...

    def cancel(self, operation_id: str) -> Awaitable[Operation]:
        """Cancel an operation."""
        ...

    def give_up(self, operation_id: str) -> Awaitable[object]:
        """Cancel an operation without a waiter: outlasts a cancellation, and raises no `ServiceError`."""
        ...

    def reschedule(
        self, operation_id: str, timeout: Duration | None, deadline: dt.datetime | None
    ) -> Awaitable[Operation]:
        """Move a deadline."""
        ...

    def forget(self, operation_id: str) -> Awaitable[None]:
        """Forget an operation that has ended."""
        ...

    def page(
        self, key: str | None, cursor: str | None, *, state: str = "pending", id_prefix: str = ""
    ) -> Page[Operation]:
        """List one page of operations."""
        ...

    def complete(self, operation_id: str, result: object, by: str | None) -> Awaitable[Operation]:
        """Complete an operation."""
        ...

    def fail(self, operation_id: str, error: object, by: str | None) -> Awaitable[Operation]:
        """Let an operation fail."""
        ...

    def answer(
        self, operation_id: str, choice: str, comment: str | None, by: str | None
    ) -> Awaitable[Operation]:
        """Give a person's answer to the question of an operation."""
        ...

    def links(
        self, operation_id: str, by: str | None, choices: Iterable[str] | None, expires_in: Duration | None
    ) -> Awaitable[Link]:
        """Make a link by which a person answers."""
        ...

    def signal(self, key: str, value: object, amount: int | None, voter: str | None) -> Awaitable[int]:
        """Signal a key; return how many operations that completed."""
        ...

    def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> Awaitable[int]:
        """Signal keys in one step; return how many operations that completed."""
        ...

    def read(self, key: str) -> Awaitable[KeyState]:
        """Read a key's newest signal."""
        ...

    def watch(self, key: str, index: int, timeout: Duration | None) -> Awaitable[KeyState | None]:
        """Wait until a key has a signal above an index, or the timeout expires."""
        ...

    def more_signals(self, reader: SignalReader) -> Awaitable[None]:
        """Let a reader have the signals after its ``since``, once there are some."""
        ...

    def events(self, after: str | None) -> AsyncIterator[Event]:
        """Read events after an id, or from now on."""
        ...

    def put(self, queue: str, item: object, delay: Duration | None) -> Awaitable[bool]:
        """Put an item; return whether a taker got it at once."""
        ...

    def put_batch(self, queue: str, items: Iterable[Mapping[str, Any]]) -> Awaitable[list[bool]]:
        """Put items in one step; return of each whether a taker got it at once."""
        ...

    def take(self, queue: str, lease: Duration | None, timeout: Duration | None) -> Awaitable[Lease | None]:
        """Lease an item, once there is one, or the timeout expires."""
        ...

    def take_batch(
        self, queue: str, most: int, lease: Duration | None, timeout: Duration | None
    ) -> Awaitable[list[Lease]]:
        """Lease items, once there are some, or the timeout expires."""
        ...

    def end_lease(self, lease: str, how: str, delay: Duration | None = None) -> Awaitable[None]:
        """End a lease: acknowledge it (``ack``) or give it back (``return``)."""
        ...

    def end_leases(self, leases: list[str], how: str) -> Awaitable[list[str]]:
        """End leases, each for itself; return the ids that had ended before."""
        ...

    def extend(self, lease: str, seconds: Duration | None) -> Awaitable[float]:
        """Count a lease again from now on; return its seconds."""
        ...

    def leases(self, queue: str | None, cursor: str | None) -> Page[Loan]:
        """List one page of leases."""
        ...

    def queues(self, prefix: str | None, cursor: str | None) -> Page[Queue]:
        """List one page of queues."""
        ...

    def queue(self, name: str) -> Awaitable[Queue]:
        """Show a queue."""
        ...

    def items(self, queue: str, delayed: bool, cursor: str | None) -> Page[QueuedItem]:
        """List one page of a queue's items."""
        ...

    def set_queue(self, name: str, settings: Mapping[str, object]) -> Awaitable[Queue]:
        """Set a queue."""
        ...

    def forget_queue(self, name: str) -> Awaitable[None]:
        """Forget a queue's settings."""
        ...

    def purge(self, queue: str) -> Awaitable[int]:
        """Drop a queue's items; return how many."""
        ...

    def redrive(self, queue: str, most: int | None) -> Awaitable[int]:
        """Put dead items back; return how many."""
        ...


class _OnBackend(Protocol):
    _backend: Backend


def backend_of(verbs: object) -> Backend:
    """Return what carries the verbs of an object out: its ``_backend``, of which the public Protocol says nothing."""
    return cast("_OnBackend", verbs)._backend


async def pages(ask: Callable[[str | None], Page[T]]) -> AsyncIterator[T]:
    """Iterate over the elements of all pages."""
    cursor = None
    while True:
        page, cursor = await ask(cursor)
        for each in page:
            yield each
        if cursor is None:
            return
