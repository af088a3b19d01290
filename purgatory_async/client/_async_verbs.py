"""What `AsyncClient` and `Durable` are: the Protocol of their verbs, and the methods that both inherit."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol, Self

from purgatory_async.client._awaiting_answers import AnswerCalls
from purgatory_async.client._awaiting_operations import OperationCalls
from purgatory_async.client._awaiting_queues import QueueCalls
from purgatory_async.client._backend import backend_of
from purgatory_async.client._model import Event, KeyState
from purgatory_async.client._signals import AsyncSignals
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class AsyncVerbs(OperationCalls, AnswerCalls, QueueCalls, Protocol):
    """The verbs of a purgatory for coroutines: over HTTP those of `AsyncClient`, in process those of `Durable`.

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

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *raised: object) -> None: ...
