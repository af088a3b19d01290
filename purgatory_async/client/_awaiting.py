"""The client for coroutines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

import anyio
import httpx2

from purgatory_async.client._awaiting_operations import OperationCalls
from purgatory_async.client._model import Event, KeyState, Operation, ServiceError
from purgatory_async.client._queue_verbs import QueueVerbs
from purgatory_async.client._sessions import AsyncSession
from purgatory_async.client._signals import AsyncSignals
from purgatory_async.client._talk import Policy
from purgatory_async.client.values import UNSET, new_id
from purgatory_async.durations import Duration
from purgatory_async.errors import refuse_number


class AsyncClient(OperationCalls):
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
        self._verbs = QueueVerbs(policy)
        self._session = AsyncSession(address, token=token, policy=policy, transport=transport, sleep=sleep)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._session.url}>"

    async def status(self, operation_id: str, *, full: bool = False) -> Operation:
        """Read an operation. See `Client.status`."""
        return await self._run(self._verbs.status(operation_id, full=full))

    async def follow(self, operation_id: str, *, timeout: Duration | None = None) -> Operation:
        """Wait until an operation ends. See `Client.follow`."""
        return await self._run(self._verbs.follow(operation_id, timeout))

    async def wait(
        self, *keys: str, need: object = "any", timeout: Duration | None = None, data: object = UNSET
    ) -> Operation:
        """Submit an operation and wait until it ends; an exception on the way cancels it. See `Client.wait`."""
        if timeout is None and len(keys) > 1:
            refuse_number(keys)
        # Named here, so that it can be cancelled if its submission gets no answer.
        operation_id = new_id()
        try:
            operation = await self.submit(
                keys, need=need, timeout=timeout, operation_id=operation_id, data=data
            )
            return await self.follow(operation_id) if operation.pending else operation
        except BaseException:
            # Also after this task was cancelled, and under a scope that keeps cancelling it.
            with suppress(ServiceError), anyio.move_on_after(self._verbs.policy.slack, shield=True):
                await self._run(self._verbs.give_up(operation_id))
            raise

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
