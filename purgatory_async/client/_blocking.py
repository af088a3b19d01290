"""The client for blocking code."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import httpx2

from purgatory_async.client._blocking_answers import AnswerCalls
from purgatory_async.client._blocking_operations import OperationCalls
from purgatory_async.client._blocking_queues import QueueCalls
from purgatory_async.client._calls import ServiceVerbs
from purgatory_async.client._model import Event, KeyState
from purgatory_async.client._sessions import Session
from purgatory_async.client._signals import Signals
from purgatory_async.client._talk import Policy
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class Client(OperationCalls, AnswerCalls, QueueCalls):
    """A blocking client of a purgatory service.

    A wait may be longer than a proxy allows: the client polls, with a read timeout that follows from the hold of each
    poll. It retries requests that were refused with 429 or 503, or could not be sent, later each time. A request that
    the service may have carried out is retried only if it is idempotent. As a context manager it closes itself.

    Args:
        address: The service's, such as ``http://127.0.0.1:8765``, with the prefix if it is mounted under one; or
            ``unix:///run/purgatory.sock``.
        token: For ``Authorization: Bearer``; None for none.
        policy: How to poll and retry.
        transport: For tests; httpx2's own if not given.
        sleep: Sleeps for a number of seconds.
        headers: Called before each request; its headers are sent, too. `purgatory_async.otel.headers` passes on the
            current trace. None for none.

    >>> Client("http://127.0.0.1:8765").close()
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        policy: Policy | None = None,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        policy = policy or Policy()
        self._verbs = ServiceVerbs(policy)
        self._session = Session(
            address, token=token, policy=policy, transport=transport, sleep=sleep, headers=headers
        )

    def __repr__(self) -> str:
        return f"<Client of {self._session.url}>"

    def signal(
        self, key: str, value: object = UNSET, *, amount: int | None = None, voter: str | None = None
    ) -> int:
        """Signal a key.

        Args:
            key: The key to signal.
            value: Any JSON to deliver.
            amount: What it counts for operations that need an amount; 1 if not given.
            voter: The voter it counts for.

        Returns:
            How many operations it completed.

        Raises:
            RequestRefused: The service refused the request.
            ServiceUnreachable: No answer came; the service may still have got the signal.
        """
        return self._run(self._verbs.signal(key, value, amount, voter))

    def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> int:
        """Signal keys in order and in one step, all or none; however often it is sent, it happens once.

        Args:
            signals: 1 to 1 000, each ``{"key": "a"}`` with, as in `signal`, ``value``, ``amount`` or ``voter``.

        Returns:
            How many operations they completed.

        Raises:
            RequestRefused: The service refused the batch; ``document["errors"]`` has what is wrong with which.
            ServiceUnreachable: No answer came; the service may still have got the batch.
        """
        return self._run(self._verbs.signal_batch(signals))

    def read(self, key: str) -> KeyState:
        """Read a key's newest signal; raises as `submit`."""
        return self._run(self._verbs.read(key))

    def watch(self, key: str, index: int, *, timeout: Duration | None = None) -> KeyState | None:
        """Wait until a key has a signal above an index.

        Args:
            key: The key to watch.
            index: The index of the last signal known; 0 for none.
            timeout: The longest wait, overrun as in `follow`; None for no limit.

        Returns:
            The newest signal; None if the timeout expired.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.watch(key, index, timeout))

    def signals(self, *keys: str, prefixes: Iterable[str] = (), since: str | int = "now") -> Signals:
        """Iterate over the signals of keys as they come, without end; each comes once, also through restarts.

        Args:
            *keys: The keys to follow, with the prefixes at most 64.
            prefixes: Beginnings of keys to follow.
            since: The place to begin after: the ``since`` of an earlier iterator, the ``place`` of a signal or the
                ``index`` of a read, 0 for all that is kept, or ``now`` for those after the first request.

        Returns:
            An iterator of `Signal`, in the order of their indexes. Its ``since`` is how far it has read. After an
            exception it goes on where it was.

        Raises:
            TypeError: ``prefixes`` is a string.
            SignalGap: From the iterator: signals may be missing. Those that are left come next.
            RequestRefused, ServiceUnreachable: From the iterator, as `submit`.
        """
        return Signals(lambda reader: self._run(self._verbs.more_signals(reader)), keys, prefixes, since)

    def events(self, after: str | None = None) -> Iterator[Event]:
        """Read life-cycle events as they happen, without end; reconnect from the last event when a connection is lost.

        Args:
            after: The ``id`` of the last event known; None for events from now on.

        Yields:
            Events; one of kind ``gap`` in place of missing ones, as after a restart of the service.

        Raises:
            ValueError: ``after`` cannot be an id.
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._session.events(after)

    def drain(self) -> None:
        """Make the service refuse new waits and release its held requests; raises as `submit`."""
        self._run(self._verbs.drain())

    def stats(self) -> Mapping[str, Any]:
        """Read the service's figures from ``/v1/admin/stats``; raises as `submit`."""
        return self._run(self._verbs.stats())

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
