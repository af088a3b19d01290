"""The client for code that blocks."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

import httpx

from purgatory_async.client._events import EVENTS, EventReader
from purgatory_async.client._model import Event, KeyState, Lease, Operation, ServiceError
from purgatory_async.client._talk import Lost, Pause, Policy, Response, Talk
from purgatory_async.client._transport import (
    LIMITS,
    TRANSPORT_ERRORS,
    as_response,
    checked_address,
    headers_for,
    lost_by,
    stream_timeout,
    timeout_for,
)
from purgatory_async.client._verbs import UNSET, Verbs, new_id

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """Talks to a purgatory service; blocks its thread.

    Waits may be longer than any proxy allows: a wait is polled, and the read timeout of each poll follows from how
    long it may be held. What was refused with 503 or could not be sent is tried again, later each time; what may have
    been carried out is tried again only where twice is the same as once. As a context manager it closes itself.

    Args:
        address: The service's, such as ``http://127.0.0.1:8765``, with the prefix if it is mounted somewhere.
        token: For ``Authorization: Bearer``; None for none.
        policy: How long is polled and tried.
        transport: For tests; httpx's own if not given.
        sleep: What sleeps, in seconds.

    >>> Client("http://127.0.0.1:8765").close()
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        policy: Policy | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._http = httpx.Client(
            base_url=checked_address(address), headers=headers_for(token), transport=transport, limits=LIMITS
        )
        self._verbs = Verbs(policy or Policy())
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<Client of {self._http.base_url}>"

    def submit(
        self,
        keys: Iterable[str],
        *,
        need: object = "any",
        timeout: float | None = None,
        operation_id: str | None = None,
        data: object = UNSET,
    ) -> Operation:
        """Submit an operation, exactly once, however often it has to be sent.

        Args:
            keys: What it watches.
            need: ``"any"``, ``"all"``, ``{"amount": n}`` or ``{"voters": n}``.
            timeout: Seconds until it expires; None for no deadline.
            operation_id: The name to know it by; the service makes one if not given.
            data: Anything JSON, shown with it.

        Returns:
            The operation.

        Raises:
            RequestRefused: As the service says.
            ServiceUnreachable: No answer came.
        """
        return self._run(
            self._verbs.submit(keys, need=need, timeout=timeout, operation_id=operation_id, data=data)
        )

    def status(self, operation_id: str) -> Operation:
        """Show an operation as it is; raises as `submit`."""
        return self._run(self._verbs.status(operation_id))

    def follow(self, operation_id: str, *, timeout: float | None = None) -> Operation:
        """Wait until an operation has ended.

        Args:
            operation_id: Whose.
            timeout: Seconds; None for as long as it takes. The end of this wait is not the operation's. Where no
                answer comes, it is overrun by up to the policy's ``slack`` and ``patience``: who could not ask cannot
                say that nothing happened.

        Returns:
            The operation; still pending if the time was up.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.follow(operation_id, timeout))

    def wait(
        self, *keys: str, need: object = "any", timeout: float | None = None, data: object = UNSET
    ) -> Operation:
        """Submit an operation and wait until it has ended; given up on the way, it is cancelled.

        Args:
            *keys: What it watches.
            need: As for `submit`.
            timeout: Seconds until it expires; None for as long as it takes.
            data: As for `submit`.

        Returns:
            The operation, ended: its ``state`` tells how.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        # Named here, so that it can be cancelled also when its submission was not answered.
        operation_id = new_id()
        try:
            operation = self.submit(keys, need=need, timeout=timeout, operation_id=operation_id, data=data)
            return self.follow(operation_id) if operation.pending else operation
        except BaseException:
            with suppress(ServiceError):
                self._run(self._verbs.give_up(operation_id))
            raise

    def complete(self, operation_id: str, result: object = UNSET) -> Operation:
        """End an operation as completed, whatever it still waits for; raises as `submit`."""
        return self._run(self._verbs.complete(operation_id, result))

    def cancel(self, operation_id: str) -> Operation:
        """End an operation as cancelled; one that has ended stays as it is. Raises as `submit`."""
        return self._run(self._verbs.cancel(operation_id))

    def operations(self, key: str | None = None) -> Iterator[Operation]:
        """List the pending operations, oldest first, page by page.

        Args:
            key: Only those that watch it; None for all.

        Yields:
            Each operation as it was when its page was read.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        cursor = None
        while True:
            page, cursor = self._run(self._verbs.page(key, cursor))
            yield from page
            if cursor is None:
                return

    def signal(
        self, key: str, value: object = UNSET, *, amount: int | None = None, voter: str | None = None
    ) -> int:
        """Say that something happened on a key.

        Args:
            key: Which.
            value: Anything JSON that it carries.
            amount: How much it counts for those who need an amount; 1 if not given.
            voter: Whose vote it is.

        Returns:
            How many operations it completed.

        Raises:
            RequestRefused: As the service says.
            ServiceUnreachable: No answer came; the signal may have been given all the same.
        """
        return self._run(self._verbs.signal(key, value, amount, voter))

    def read(self, key: str) -> KeyState:
        """Read a key's newest signal; raises as `submit`."""
        return self._run(self._verbs.read(key))

    def watch(self, key: str, index: int, *, timeout: float | None = None) -> KeyState | None:
        """Wait until a key has a signal above an index.

        Args:
            key: Which.
            index: Up to where one knows it; 0 for nothing.
            timeout: Seconds, overrun as in `follow`; None for as long as it takes.

        Returns:
            The newest signal; None if there was none in time.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.watch(key, index, timeout))

    def put(self, queue: str, item: object) -> bool:
        """Put an item into a queue.

        Args:
            queue: Which.
            item: Anything JSON.

        Returns:
            Whether a taker has it already.

        Raises:
            RequestRefused: As the service says.
            ServiceUnreachable: No answer came; the item may have been put all the same.
        """
        return self._run(self._verbs.put(queue, item))

    def take(self, queue: str, *, lease: float | None = None, timeout: float | None = 0.0) -> Lease | None:
        """Take an item on loan.

        Args:
            queue: Which.
            lease: Seconds until it goes back unless it is acknowledged; None for the service's default.
            timeout: Seconds to wait for one, overrun as in `follow`; None for as long as it takes.

        Returns:
            The lease; None if there was no item in time.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.take(queue, lease, timeout))

    def acknowledge(self, lease: Lease | str) -> None:
        """Say that a leased item is done with; raises as `submit`."""
        self._run(self._verbs.end_lease(lease if isinstance(lease, str) else lease.id, "ack"))

    def give_back(self, lease: Lease | str) -> None:
        """Put a leased item back in front of its queue; raises as `submit`."""
        self._run(self._verbs.end_lease(lease if isinstance(lease, str) else lease.id, "return"))

    def events(self, after: str | None = None) -> Iterator[Event]:
        """Read life-cycle events as they happen, for ever; a lost connection is made again, from where it was.

        Args:
            after: The ``id`` of the last event known; None for those from now on.

        Yields:
            Events; one of kind ``gap`` where some are missing, as after a restart of the service.

        Raises:
            ValueError: ``after`` cannot be an id.
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        reader = EventReader(after, self._verbs.policy)
        while True:
            try:
                with self._http.stream(
                    "GET", EVENTS, headers=reader.headers, timeout=stream_timeout(self._verbs.policy)
                ) as response:
                    body = b"" if response.is_success else response.read()
                    reader.begin(response.status_code, response.headers.get("Content-Type", ""), body)
                    for text in response.iter_text():
                        yield from reader.feed(text)
                reader.lost("it ended")
            except TRANSPORT_ERRORS as error:
                reader.lost(str(error) or type(error).__name__)
            self._sleep(reader.pause())

    def drain(self) -> None:
        """Let the service take nothing new that waits, and let its held requests go; raises as `submit`."""
        self._run(self._verbs.drain())

    def stats(self) -> Mapping[str, Any]:
        """The service's figures, as its ``/v1/admin/stats`` has them; raises as `submit`."""
        return self._run(self._verbs.stats())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self, talk: Talk[T]) -> T:
        answer: Response | Lost | None = None
        try:
            while True:
                step = talk.send(answer)
                if isinstance(step, Pause):
                    self._sleep(step.seconds)
                    answer = None
                    continue
                try:
                    answer = as_response(
                        self._http.request(
                            step.method,
                            step.path,
                            params=step.query or None,
                            json=step.body,
                            headers=dict(step.headers),
                            timeout=timeout_for(step, self._verbs.policy),
                        )
                    )
                except TRANSPORT_ERRORS as error:
                    answer = lost_by(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            talk.close()
