"""How both clients handle addresses, tokens and connections, without a service."""

from contextlib import suppress
from itertools import count

import httpx2
import pytest

from purgatory_async.client import AsyncClient, Client, Policy, RequestRefused, ServiceUnreachable
from purgatory_async.client._events import SILENCE
from purgatory_async.testing import ManualClock

BAD_ADDRESSES = [
    "",
    "localhost:8765",
    "ftp://h",
    "http://",
    "http:///x",
    "http://h:99999",
    "http://h?x",
    "http://h\n",
    "unix://run/p.sock",
    "unix:/run/p.sock",
]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_is_none_is_refused_and_named(kind, address):
    with pytest.raises(ValueError, match="address must be like http://") as refused:
        kind(address)
    assert repr(address) in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("address", ["http://me:secret@h", "http://secret@h"])
def test_a_password_in_an_address_is_refused_and_not_repeated(kind, address):
    with pytest.raises(ValueError, match="give a token") as refused:
        kind(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("token", ["", " ", "a\nb", "sécret", "secret ", b"secret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(kind, token):
    with pytest.raises((ValueError, TypeError), match="token must be") as refused:
        kind("http://h", token=token)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "error", [httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.DecodingError]
)
def test_every_connection_failure_is_our_error_with_the_reason(error):
    tries = count()

    def fail(request):
        assert next(tries) < 1000, "it is never given up"
        raise error("the reason")

    clock = ManualClock()
    policy = Policy(clock=clock.time)
    with (
        Client(
            "http://h", policy=policy, transport=httpx2.MockTransport(fail), sleep=clock.advance
        ) as client,
        pytest.raises(ServiceUnreachable, match="GET /v1/admin/stats was not answered: the reason"),
    ):
        client.stats()


def test_a_transports_stop_iteration_is_no_answer():
    answers = iter(())
    with Client("http://h", transport=httpx2.MockTransport(lambda request: next(answers))) as client:
        with pytest.raises(StopIteration):
            client.stats()
        with pytest.raises(RuntimeError, match="must not raise StopIteration"):
            list(client.signals("k"))


@pytest.mark.asyncio
async def test_a_transports_stop_ends_no_async_iteration():
    async def fail(request):
        raise StopAsyncIteration

    async with AsyncClient("http://h", transport=httpx2.MockTransport(fail)) as client:
        with pytest.raises(RuntimeError, match="must not raise StopAsyncIteration"):
            [signal async for signal in client.signals("k")]


def test_an_interrupted_wait_cancels_its_operation():
    seen = []

    def answer(request):
        seen.append((request.method, request.url.path))
        if request.method == "POST":
            raise KeyboardInterrupt
        return httpx2.Response(200, json={})

    with (
        Client("http://h", transport=httpx2.MockTransport(answer)) as client,
        suppress(KeyboardInterrupt),
    ):
        client.wait("k")
    assert [method for method, _ in seen] == ["POST", "DELETE"]
    assert seen[1][1].removeprefix("/v1/operations/")


def test_a_prefix_stands_before_every_path():
    seen = []

    def answer(request):
        seen.append(request.url.raw_path)
        return httpx2.Response(200, json={})

    with Client("http://h/pre/", transport=httpx2.MockTransport(answer)) as client:
        client.stats()
    assert seen == [b"/pre/v1/admin/stats"]


def page(request):
    return httpx2.Response(200, text="data: 1\n\n", headers={"Content-Type": "text/html"})


def test_a_page_in_the_place_of_events_is_refused_with_its_type():
    with (
        Client("http://h", transport=httpx2.MockTransport(page)) as client,
        pytest.raises(RequestRefused, match="it is text/html, not text/event-stream"),
    ):
        next(client.events())


@pytest.mark.asyncio
async def test_a_page_instead_of_events_is_refused_by_async_too():
    async with AsyncClient("http://h", transport=httpx2.MockTransport(page)) as client:
        with pytest.raises(RequestRefused, match="it is text/html, not text/event-stream"):
            await anext(client.events())


HELD = httpx2.Response(200, json={"key": "k", "index": 1, "value": None})


def limits_of(request):
    """The timeouts given to httpx2: how long connecting, sending and the next piece of an answer may take."""
    timeout = request.extensions["timeout"]
    return timeout["connect"], timeout["write"], timeout["read"]


class Asked:
    """Answers every request alike and keeps the requests; a list of answers is used up."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.pauses = []

    def __call__(self, request):
        self.requests.append(request)
        assert len(self.requests) < 100, "it is never given up"
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return httpx2.Response(found.status_code, headers=found.headers, content=found.content)

    def client(self, **policy):
        transport = httpx2.MockTransport(self)
        return Client("http://h", policy=Policy(**policy), transport=transport, sleep=self.pauses.append)

    def async_client(self, **policy):
        async def sleep(seconds):
            self.pauses.append(seconds)

        transport = httpx2.MockTransport(self)
        return AsyncClient("http://h", policy=Policy(**policy), transport=transport, sleep=sleep)


def test_timeouts_follow_the_hold_and_the_allowed_silence():
    asked = Asked(HELD, httpx2.Response(404, json={}))
    with asked.client(poll=25.0, slack=7.0) as client:
        client.watch("k", 0)
        with pytest.raises(RequestRefused):
            next(client.events())
    assert [limits_of(request) for request in asked.requests] == [(7.0, 7.0, 32.0), (7.0, 7.0, SILENCE)]


@pytest.mark.asyncio
async def test_an_answer_to_the_async_client_may_take_as_long_as_well():
    asked = Asked(HELD, httpx2.Response(404, json={}))
    async with asked.async_client(poll=25.0, slack=7.0) as client:
        await client.watch("k", 0)
        with pytest.raises(RequestRefused):
            await anext(client.events())
    assert [limits_of(request) for request in asked.requests] == [(7.0, 7.0, 32.0), (7.0, 7.0, SILENCE)]


def test_a_request_that_never_left_is_always_sent_again():
    done = httpx2.Response(200, json={"completed": 0})
    for error in (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        asked = Asked(error("never sent"), done)
        with asked.client() as client:
            client.signal("k")
        assert len(asked.requests) == 2
    for error in (httpx2.ReadError, httpx2.WriteError, httpx2.ReadTimeout, httpx2.RemoteProtocolError):
        asked = Asked(error("may be done"), done)
        with asked.client() as client, pytest.raises(ServiceUnreachable, match="may or may not"):
            client.signal("k")
        assert len(asked.requests) == 1


EMPTY = httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=b"")


def jumping():
    """A clock that moves by a second on each reading."""
    seconds = count()
    return lambda: float(next(seconds))


def test_a_stream_that_ends_at_once_is_retried_then_given_up():
    asked = Asked(EMPTY)
    policy = {"first_delay": 1.0, "max_delay": 4.0, "draw": lambda: 1.0, "patience": 3.5, "clock": jumping()}
    with asked.client(**policy) as client, pytest.raises(ServiceUnreachable, match="not answered: it ended"):
        next(client.events())
    assert asked.pauses == [1.0, 2.0, 4.0, 4.0]


@pytest.mark.asyncio
async def test_a_stream_that_ends_at_once_is_given_up_by_async_too():
    asked = Asked(EMPTY)
    policy = {"first_delay": 1.0, "max_delay": 4.0, "draw": lambda: 0.0, "patience": 3.5, "clock": jumping()}
    async with asked.async_client(**policy) as client:
        with pytest.raises(ServiceUnreachable, match="not answered: it ended"):
            await anext(client.events())
    assert asked.pauses == [0.5, 1.0, 2.0, 2.0]


def test_the_blocking_client_lists_page_after_page():
    shown = {"id": "o", "keys": ["k"], "need": "any", "state": "pending", "deadline": None, "elapsed": 0.0}
    shown |= {"submitted_at": "2026-01-01T12:00:00Z", "signals": []}
    asked = Asked(
        httpx2.Response(200, json={"operations": [shown], "next": "c"}),
        httpx2.Response(200, json={"operations": [shown]}),
    )
    with asked.client() as client:
        assert [operation.id for operation in client.operations()] == ["o", "o"]
    assert [request.url.params.get("cursor") for request in asked.requests] == [None, "c"]
