"""What carries out conversations with a service over httpx2: blocking, and in coroutines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from typing import TypeVar

import httpx2

from purgatory_async.client._events import EVENTS, EventReader
from purgatory_async.client._model import Event
from purgatory_async.client._talk import Lost, Pause, Policy, Request, Response, Talk
from purgatory_async.client._transport import (
    LIMITS,
    TRANSPORT_ERRORS,
    add_headers,
    as_response,
    base_url_of,
    headers_for,
    hooks_of,
    lost_by,
    naming,
    stream_timeout,
    timeout_for,
    transport_for,
)

T = TypeVar("T")


class Session:
    """Connections to a service, directly or through the proxy that the environment names. See `Client`."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None,
        policy: Policy,
        transport: httpx2.BaseTransport | None,
        sleep: Callable[[float], object],
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        carried_by, self._proxy = transport_for(
            address, transport, httpx2.BaseTransport, httpx2.HTTPTransport
        )
        self._http = httpx2.Client(
            base_url=base_url_of(address),
            headers=headers_for(token),
            transport=carried_by,
            proxy=self._proxy,
            limits=LIMITS,
            event_hooks=hooks_of(headers, add_headers),
        )
        self._policy = policy
        self._sleep = sleep

    @property
    def url(self) -> str:
        """The URL before the path of every request."""
        return str(self._http.base_url)

    def run(self, talk: Talk[T]) -> T:
        """Carry out a conversation, and return its result; raises its error."""
        with naming(self._proxy), closing(talk):
            answer: Response | Lost | None = None
            while True:
                try:
                    step = talk.send(answer)
                except StopIteration as end:  # only here: a transport may raise one too
                    result: T = end.value
                    return result
                if isinstance(step, Pause):
                    self._sleep(step.seconds)
                    answer = None
                else:
                    answer = self._ask(step)

    def events(self, after: str | None) -> Iterator[Event]:
        """Read the event stream without end. See `Client.events`."""
        reader = EventReader(after, self._policy)
        with naming(self._proxy):
            while True:
                try:
                    with self._http.stream(
                        "GET", EVENTS, headers=reader.headers, timeout=stream_timeout(self._policy)
                    ) as response:
                        body = b"" if response.is_success else response.read()
                        reader.begin(response.status_code, response.headers.get("Content-Type", ""), body)
                        for text in response.iter_text():
                            yield from reader.feed(text)
                    reader.lost("it ended")
                except TRANSPORT_ERRORS as error:
                    reader.lost(str(error) or type(error).__name__)
                self._sleep(reader.pause())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, request: Request) -> Response | Lost:
        try:
            return as_response(
                self._http.request(
                    request.method,
                    request.path,
                    params=request.query or None,
                    json=request.body,
                    headers=dict(request.headers),
                    timeout=timeout_for(request, self._policy),
                )
            )
        except TRANSPORT_ERRORS as error:
            return lost_by(error)


class AsyncSession:
    """As `Session`, in coroutines."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None,
        policy: Policy,
        transport: httpx2.AsyncBaseTransport | None,
        sleep: Callable[[float], Awaitable[object]],
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        carried_by, self._proxy = transport_for(
            address, transport, httpx2.AsyncBaseTransport, httpx2.AsyncHTTPTransport
        )
        self._http = httpx2.AsyncClient(
            base_url=base_url_of(address),
            headers=headers_for(token),
            transport=carried_by,
            proxy=self._proxy,
            limits=LIMITS,
            event_hooks=hooks_of(headers, _add_headers),
        )
        self._policy = policy
        self._sleep = sleep

    @property
    def url(self) -> str:
        """The URL before the path of every request."""
        return str(self._http.base_url)

    async def run(self, talk: Talk[T]) -> T:
        """Carry out a conversation, and return its result; raises its error."""
        with naming(self._proxy), closing(talk):
            answer: Response | Lost | None = None
            while True:
                try:
                    step = talk.send(answer)
                except StopIteration as end:  # only here: a transport may raise one too
                    result: T = end.value
                    return result
                if isinstance(step, Pause):
                    await self._sleep(step.seconds)
                    answer = None
                else:
                    answer = await self._ask(step)

    async def events(self, after: str | None) -> AsyncIterator[Event]:
        """Read the event stream without end. See `Client.events`."""
        reader = EventReader(after, self._policy)
        with naming(self._proxy):
            while True:
                try:
                    async with self._http.stream(
                        "GET", EVENTS, headers=reader.headers, timeout=stream_timeout(self._policy)
                    ) as response:
                        body = b"" if response.is_success else await response.aread()
                        reader.begin(response.status_code, response.headers.get("Content-Type", ""), body)
                        async for text in response.aiter_text():
                            for event in reader.feed(text):
                                yield event
                    reader.lost("it ended")
                except TRANSPORT_ERRORS as error:
                    reader.lost(str(error) or type(error).__name__)
                await self._sleep(reader.pause())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _ask(self, request: Request) -> Response | Lost:
        try:
            return as_response(
                await self._http.request(
                    request.method,
                    request.path,
                    params=request.query or None,
                    json=request.body,
                    headers=dict(request.headers),
                    timeout=timeout_for(request, self._policy),
                )
            )
        except TRANSPORT_ERRORS as error:
            return lost_by(error)


async def _add_headers(headers: Callable[[], Mapping[str, str]], request: httpx2.Request) -> None:
    add_headers(headers, request)
