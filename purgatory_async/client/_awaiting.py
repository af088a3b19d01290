"""The client for coroutines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Self

import anyio
import httpx2

from purgatory_async.client._awaiting_answers import AnswerCalls
from purgatory_async.client._awaiting_operations import OperationCalls
from purgatory_async.client._awaiting_queues import QueueCalls
from purgatory_async.client._calls import ServiceVerbs
from purgatory_async.client._model import Event, KeyState
from purgatory_async.client._sessions import AsyncSession
from purgatory_async.client._signals import AsyncSignals
from purgatory_async.client._talk import Policy
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class AsyncClient(OperationCalls, AnswerCalls, QueueCalls):
    """An async client of a purgatory service; it has the arguments and methods of `Client`."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        policy: Policy | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        policy = policy or Policy()
        self._verbs = ServiceVerbs(policy)
        self._session = AsyncSession(address, token=token, policy=policy, transport=transport, sleep=sleep)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._session.url}>"

    async def signal(
        self, key: str, value: object = UNSET, *, amount: int | None = None, voter: str | None = None
    ) -> int:
        """Signal a key. See `Client.signal`."""
        return await self._run(self._verbs.signal(key, value, amount, voter))

    async def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> int:
        """Signal keys in order and in one step, all or none. See `Client.signal_batch`."""
        return await self._run(self._verbs.signal_batch(signals))

    async def read(self, key: str) -> KeyState:
        """Read a key's newest signal. See `Client.read`."""
        return await self._run(self._verbs.read(key))

    async def watch(self, key: str, index: int, *, timeout: Duration | None = None) -> KeyState | None:
        """Wait until a key has a signal above an index. See `Client.watch`."""
        return await self._run(self._verbs.watch(key, index, timeout))

    def signals(self, *keys: str, prefixes: Iterable[str] = (), since: str | int = "now") -> AsyncSignals:
        """Iterate over the signals of keys as they come, each once. See `Client.signals`."""
        return AsyncSignals(self._run, self._verbs, keys, prefixes, since)

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Read life-cycle events as they happen, without end. See `Client.events`."""
        return self._session.events(after)

    async def drain(self) -> None:
        """Make the service refuse new waits. See `Client.drain`."""
        await self._run(self._verbs.drain())

    async def stats(self) -> Mapping[str, Any]:
        """Read the service's figures. See `Client.stats`."""
        return await self._run(self._verbs.stats())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()
