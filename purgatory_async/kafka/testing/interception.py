"""A broker whose requests a test can await, hold back and refuse, of any client."""

from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Final

from purgatory_async import Purgatory
from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.broker import Broker
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.testing.refusals import Refusal, api_key, error_code, refused

__all__ = ["InterceptedBroker", "until"]


class InterceptedBroker(Broker):
    """A `Broker` between whose requests and answers a test stands. See `Broker` for the settings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # In real time, as clients are. Keys: "came" or "held", and the api's number.
        self._requests: Final = Purgatory("requests of a test")
        self._held: Final = set[int]()
        self._refusals: Final[list[Refusal]] = []

    async def __aexit__(self, *raised: object) -> None:
        """Close, as `Broker` does."""
        await super().__aexit__(*raised)
        self._requests.close()

    async def next_request(self, api: str, *, timeout: float = 10.0) -> Any:
        """Wait until the next request of an api, from any client, is answered or waits to be.

        Args:
            api: A name of Kafka's protocol, such as ``JoinGroup``.
            timeout: Seconds of real time.

        Returns:
            The request, as kio's entity.

        Raises:
            ValueError: The broker has no such api.
            OperationExpired: None came in time.
        """
        return await self._requests.wait(("came", api_key(api)), timeout=timeout)

    def hold(self, api: str) -> ExitStack:
        """Leave requests of an api unanswered until `release` or the end of a ``with`` block, then serve them.

        A connection's requests are answered in order, so a held one also holds those behind it.

        Args:
            api: A name of Kafka's protocol, such as ``Produce``.

        Raises:
            ValueError: The broker has no such api.
        """
        self._held.add(api_key(api))
        return until(self.release, api)

    def release(self, api: str) -> None:
        """Serve the requests that were held.

        Raises:
            ValueError: The broker has no such api.
        """
        key = api_key(api)
        self._held.discard(key)
        self._requests.check_and_complete(("held", key))

    def fail_next(self, api: str, error: str, *, times: int = 1) -> Refusal:
        """Refuse the next requests of an api; they have no effect.

        A request whose answer cannot have an error is served: metadata without a topic, a produce with acks=0.

        Args:
            api: A name of Kafka's protocol, such as ``Produce``.
            error: A name of one of its errors, such as ``NOT_LEADER_OR_FOLLOWER``.
            times: How many requests.

        Returns:
            The refusal, whose ``left`` counts down to 0.

        Raises:
            ValueError: A name is unknown, or ``times`` is less than 1.
        """
        api_key(api)
        if times < 1:
            raise ValueError(f"times must be at least 1, got {times}")
        refusal = Refusal(api, error_code(error), times)
        self._refusals.append(refusal)
        return refusal

    def answer(self, api: Api, request: Any, client: Client) -> Answer | Awaitable[Answer]:
        """Serve a request, unless the test holds or refuses it."""
        # Soon: the test resumes once the request waits, or is answered.
        get_running_loop().call_soon(self._requests.complete_for_key, ("came", api.key), request)
        return (
            self._hold(api, request, client) if api.key in self._held else self._serve(api, request, client)
        )

    async def _hold(self, api: Api, request: Any, client: Client) -> Answer:
        await self._requests.wait(("held", api.key), until=lambda: api.key not in self._held)
        return await _settled(self._serve(api, request, client))

    def _serve(self, api: Api, request: Any, client: Client) -> Answer | Awaitable[Answer]:
        refusal = next((each for each in self._refusals if each.left and api_key(each.api) == api.key), None)
        if refusal is None:
            return super().answer(api, request, client)
        refusal.left -= 1  # before it waits for anything: another connection may ask meanwhile
        return self._refuse(refusal, api, request, client)

    async def _refuse(self, refusal: Refusal, api: Api, request: Any, client: Client) -> Answer:
        answer = await refused(self.node, api, request, client, refusal.error)
        if answer is None:
            refusal.left += 1
            return await _settled(super().answer(api, request, client))
        return answer


def until(end: Callable[..., object], *arguments: object) -> ExitStack:
    """Make a context manager that calls ``end(*arguments)`` at its end."""
    stack = ExitStack()
    stack.callback(end, *arguments)
    return stack


async def _settled(answer: Answer | Awaitable[Answer]) -> Answer:
    return await answer if isinstance(answer, Awaitable) else answer
