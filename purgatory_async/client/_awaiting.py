"""The client for coroutines."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import httpx2

from purgatory_async.client._async_verbs import AsyncVerbs
from purgatory_async.client._calls import ServiceVerbs
from purgatory_async.client._model import Lease, ServiceError
from purgatory_async.client._sessions import AsyncSession
from purgatory_async.client._talk import Policy, Talk
from purgatory_async.client.values import new_id
from purgatory_async.durations import Duration

if TYPE_CHECKING:
    from purgatory_async.client._backend import Backend


class AsyncClient(AsyncVerbs):
    """An async client of a purgatory service; it has the arguments and methods of `Client`."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        policy: Policy | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        policy = policy or Policy()
        self._verbs = ServiceVerbs(policy)
        self._session = AsyncSession(
            address, token=token, policy=policy, transport=transport, sleep=sleep, headers=headers
        )
        self._backend = cast("Backend", _Carried(self._verbs, self._session))

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._session.url}>"

    async def drain(self) -> None:
        """Make the service refuse new waits. See `Client.drain`."""
        await self._session.run(self._verbs.drain())

    async def stats(self) -> Mapping[str, Any]:
        """Read the service's figures. See `Client.stats`."""
        return await self._session.run(self._verbs.stats())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


class _Carried:
    """`ServiceVerbs` as a `Backend`: their conversations are carried out as they begin."""

    def __init__(self, verbs: ServiceVerbs, session: AsyncSession) -> None:
        self._verbs = verbs
        self._run = session.run
        self.events = session.events

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[object]]:
        begin = getattr(self._verbs, verb)
        return lambda *arguments, **named: self._run(begin(*arguments, **named))

    async def take(self, queue: str, lease: Duration | None, timeout: Duration | None) -> Lease | None:
        """Lease an item; see `_put_back`."""
        key = new_id()
        try:
            return await self._run(self._verbs.take(queue, lease, timeout, key))
        except anyio.get_cancelled_exc_class():
            await self._put_back(lambda verbs: verbs.take(queue, lease, 0.0, key))
            raise

    async def take_batch(
        self, queue: str, most: int, lease: Duration | None, timeout: Duration | None
    ) -> list[Lease]:
        """Lease items; see `_put_back`."""
        key = new_id()
        try:
            return await self._run(self._verbs.take_batch(queue, most, lease, timeout, key))
        except anyio.get_cancelled_exc_class():
            await self._put_back(lambda verbs: verbs.take_batch(queue, most, lease, 0.0, key))
            raise

    async def _put_back(
        self, again: Callable[[ServiceVerbs], Talk[Lease | None] | Talk[list[Lease]]]
    ) -> None:
        """Give back what a cancelled take has leased: the same take again has what its answer, unread, had."""
        if not self._verbs.takes_have_keys:
            return
        with suppress(ServiceError), anyio.move_on_after(self._verbs.policy.slack, shield=True):
            impatient = ServiceVerbs(replace(self._verbs.policy, patience=0.0))
            await self._run(impatient.put_back(again(impatient)))

    async def give_up(self, operation_id: str) -> None:
        """Cancel an operation, also after this task was cancelled, and under a scope that keeps cancelling it."""
        with suppress(ServiceError), anyio.move_on_after(self._verbs.policy.slack, shield=True):
            await self._run(self._verbs.give_up(operation_id))
