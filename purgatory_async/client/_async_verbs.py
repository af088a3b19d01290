"""What `AsyncClient` and `Durable` are: the Protocol of their verbs, and the methods that both inherit."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NoReturn, Protocol, Self

from purgatory_async.client._awaiting_answers import AnswerCalls
from purgatory_async.client._awaiting_operations import OperationCalls
from purgatory_async.client._awaiting_queues import QueueCalls
from purgatory_async.client._backend import backend_of
from purgatory_async.client._model import Event, KeyState
from purgatory_async.client._signals import AsyncSignals
from purgatory_async.client._work import Handler, OnError, Retry, Work
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class AsyncVerbs(OperationCalls, AnswerCalls, QueueCalls, Protocol):
    """The verbs of a purgatory for coroutines: `AsyncClient` has them over HTTP, `Durable` in process.

    An application that takes ``AsyncVerbs`` works with either: names, arguments, results and exceptions are the same.
    What each method takes, returns and raises is said at the method of `Client`, which blocks. A subclass inherits the
    methods, and has what carries them out (see `_backend`); a double for tests may be any object with these methods.
    """

    async def signal(
        self, key: str, value: object = UNSET, *, amount: int | None = None, voter: str | None = None
    ) -> int:
        """Signal a key. See `Client.signal`."""
        return await backend_of(self).signal(key, value, amount, voter)

    async def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> int:
        """Signal keys in order and in one step, all or none. See `Client.signal_batch`."""
        return await backend_of(self).signal_batch(signals)

    async def read(self, key: str) -> KeyState:
        """Read a key's newest signal. See `Client.read`."""
        return await backend_of(self).read(key)

    async def watch(self, key: str, index: int, *, timeout: Duration | None = None) -> KeyState | None:
        """Wait until a key has a signal above an index. See `Client.watch`."""
        return await backend_of(self).watch(key, index, timeout)

    def signals(self, *keys: str, prefixes: Iterable[str] = (), since: str | int = "now") -> AsyncSignals:
        """Iterate over the signals of keys as they come, each once. See `Client.signals`."""
        return AsyncSignals(backend_of(self).more_signals, keys, prefixes, since)

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Read life-cycle events as they happen, without end. See `Client.events`."""
        return backend_of(self).events(after)

    async def work(
        self,
        queues: str | Iterable[str],
        handler: Handler,
        *,
        concurrency: int = 1,
        lease: Duration = 30.0,
        retry: Retry = (1.0, 2.0, 60.0),
        on_error: OnError | None = None,
        grace: Duration | None = None,
    ) -> NoReturn:
        """Handle the items of queues until it is cancelled: each at least once, and once while its lease holds.

        While a handler runs, its lease is extended at half time. If it returns, the item is acknowledged. If it raises
        an `Exception`, the item is given back, hidden for a while that grows with its attempts; after the queue's
        ``max_attempts`` it is dead. If it raises `asyncio.CancelledError` of its own, the item is given back at once.
        Any other exception ends the work. A handler whose lease is lost is cancelled, and what it returns is dropped;
        one that ignores the cancellation keeps its place among the concurrent ones.

        While the service or its store is away, the work goes on trying; an outage is reported once, to the loop's
        exception handler.

        A take that is cancelled, because another one took the last place or the work ends, leaves its line: the item
        that it might have had goes back, and counts no attempt. If its answer was on its way over HTTP already, the
        client gives the item back at once, and that counts one.

        Args:
            queues: A queue, or several: tried in this order, then waited for all at once.
            handler: An async function. It gets a `Lease`: ``item``, ``attempts``, and ``id``.
            concurrency: The most handlers that run at once.
            lease: How long an item stays leased if this process dies.
            retry: How long an item is hidden after a handler's error: the first delay, a factor for each further
                attempt, and the longest delay. Up to half of each delay is random.
            on_error: Called with the `Lease` and the handler's error, plain or async. What it raises is reported to the
                loop's exception handler; so is the handler's error itself if this is None.
            grace: When the work is cancelled or fails, how long the running handlers may go on before they are
                cancelled; None for as long as a lease. The work ends once all have ended.

        Raises:
            asyncio.CancelledError: It was cancelled. What was not acknowledged was given back.
            BaseException: What ended the work: from a handler, or from a take that cannot succeed, as `Client.take`.
            TypeError, ValueError: An argument has another type, or is out of its bounds.
        """
        await Work(
            self,
            queues,
            handler,
            concurrency=concurrency,
            lease=lease,
            retry=retry,
            on_error=on_error,
            grace=grace,
        ).run()

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *raised: object) -> None: ...
